"""benchmarks/search.py: its last line, and its exit status where exact search was not exact."""

import json
import sys
from pathlib import Path

import pytest

pytest.importorskip("faiss")
ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize("wrong", [0, 2])
def test_a_difference_from_brute_force_fails_the_run(monkeypatch, capsys, wrong):
    monkeypatch.syspath_prepend(str(ROOT / "benchmarks"))
    import search

    monkeypatch.setattr(search, "differing", lambda *_: wrong)
    given = ["--sizes", "1000", "--fast-at", "0", "--queries", "32", "--repeats", "1"]
    monkeypatch.setattr(sys, "argv", ["search.py", *given, "--threads", "1"])
    if wrong:
        with pytest.raises(SystemExit, match="1"):
            search.main()
    else:
        search.main()
    last = json.loads(capsys.readouterr().out.splitlines()[-1])
    assert (last["differing"], last["exact_at"]) == (wrong, 1000)
    assert last["bytes_per_item"] > 1312  # the room for bounds counts
