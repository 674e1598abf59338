"""benchmarks/hostile_input.py with fewer files."""

import sys
from pathlib import Path

import pytest


@pytest.mark.skipif(sys.platform != "linux", reason="reads memory from /proc")
def test_damaged_files_end_in_no_traceback_no_hang_and_little_memory(monkeypatch, capsys):
    monkeypatch.syspath_prepend(str(Path(__file__).parents[1] / "benchmarks"))
    import hostile_input

    figures = hostile_input.run(images=150, others=60, seed=1, large=False)
    assert figures["files"] == 210 and figures["raw"] == figures["hang"] == 0, capsys.readouterr()
    assert figures["rejected"] > 100 and figures["peak_mb"] < hostile_input.MEGABYTES
