"""benchmarks/search.py: its last line, and its exit code if exact search is not exact."""

import json
import sys
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("faiss")
ROOT = Path(__file__).parents[2]


@pytest.fixture
def run(monkeypatch, capsys):
    monkeypatch.syspath_prepend(str(ROOT / "benchmarks"))
    import search

    def run(*options):
        common = ["--sizes", "1000", "--queries", "32", "--repeats", "1", "--threads", "1"]
        monkeypatch.setattr(sys, "argv", ["search.py", *common, "--approximate", *options])
        search.main()

    run.last_line = lambda: json.loads(capsys.readouterr().out.splitlines()[-1])
    return run


def test_the_last_line_has_the_worst_figures_of_all_kinds(run, tmp_path):
    rng = np.random.default_rng(0)
    sets = rng.normal(size=(1000, 2, 64)).astype(np.float32)
    sets /= np.linalg.norm(sets, axis=2, keepdims=True)
    np.save(tmp_path / "sets.npy", sets)
    np.save(tmp_path / "queries.npy", sets[:40])
    run("--sets", str(tmp_path / "sets.npy"), "--queries-file", str(tmp_path / "queries.npy"))
    last = run.last_line()
    assert last["differing"] == 0
    assert last["bytes_per_item"] >= 1304
    assert 0 < last["exact_ratio"] and 0 < last["exact_batch_ratio"]


def test_latencies_are_measured_on_idle_and_busy_cores(run, monkeypatch):
    import search_runs

    monkeypatch.setattr(search_runs, "LATENCIES", 5)
    run("--busy", "--kinds", "clustered")
    assert run.last_line()["busy_exact_ratio"] > 0


def test_a_wrong_hit_ends_the_benchmark_with_exit_code_1(run, monkeypatch):
    import search_runs

    search = search_runs.SetIndex.search

    def without_best(index, queries, k):
        return [hits[1:] + hits[:1] for hits in search(index, queries, k)]

    monkeypatch.setattr(search_runs.SetIndex, "search", without_best)
    with pytest.raises(SystemExit, match="1"):
        run("--kinds", "clustered")
    assert run.last_line()["differing"] == 32
