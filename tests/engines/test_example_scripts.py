"""The scripts in examples/ that store sets in an engine."""

import re

from example_support import run_example


def test_sets_in_qdrant_finds_and_filters(tmp_path, monkeypatch, capsys, qdrant_address):
    printed = run_example("sets_in_qdrant", tmp_path, monkeypatch, capsys, qdrant_address())
    assert printed.startswith("12 sets, 6 of them with a seed of 6 or more\n")
    hits = re.findall(r"^  scene-(\d+) ", printed, flags=re.MULTILINE)
    assert len(hits) == 3 and all(6 <= int(seed) < 12 for seed in hits)


def test_sets_in_postgres_scores_as_the_index_does(tmp_path, monkeypatch, capsys, postgres_address):
    printed = run_example("sets_in_postgres", tmp_path, monkeypatch, capsys, postgres_address())
    assert printed.startswith("copied 12 sets\n")
    scores = re.findall(r"(-?\d\.\d+) in the index, (-?\d\.\d+) in PostgreSQL", printed)
    assert len(scores) == 3
    assert all(abs(float(ours) - float(theirs)) <= 2e-5 for ours, theirs in scores)
    assert sum(map(int, re.findall(r"^  (\d+) x ", printed, flags=re.MULTILINE))) == 12
