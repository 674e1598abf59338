"""benchmarks/search.py: its last line, and its exit code if exact search is not exact."""

import json
import sys
from pathlib import Path

import pytest

pytest.importorskip("faiss")
ROOT = Path(__file__).parents[2]


@pytest.fixture
def benchmark(monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT / "benchmarks"))
    import search

    options = ["--sizes", "1000", "--approximate-at", "0", "--queries", "32", "--repeats", "1"]
    monkeypatch.setattr(sys, "argv", ["search.py", *options, "--threads", "1"])
    return search


def test_the_last_line_reports_exact_search_without_differences(benchmark, capsys):
    benchmark.main()
    last = json.loads(capsys.readouterr().out.splitlines()[-1])
    assert (last["differing"], last["exact_at"]) == (0, 1000)
    assert last["bytes_per_item"] > 1312  # codes and the buffer of bounds


def test_a_wrong_hit_ends_the_benchmark_with_exit_code_1(benchmark, monkeypatch, capsys):
    def without_best(index, queries, k):
        return [hits[1:] + hits[:1] for hits in search(index, queries, k)]

    search = benchmark.SetIndex.search
    monkeypatch.setattr(benchmark.SetIndex, "search", without_best)
    with pytest.raises(SystemExit, match="1"):
        benchmark.main()
    assert json.loads(capsys.readouterr().out.splitlines()[-1])["differing"] == 32
