"""Damaged segments are rebuilt."""

import os
import time

import pytest
from index.index_support import make_index, make_sets

from diverset.index import SetIndex, segment_writer, segments


@pytest.mark.parametrize("harm", ["truncate", "delete", "foreign", "empty"])
def test_a_damaged_segment_is_rebuilt_by_the_next_search(tmp_path, monkeypatch, harm):
    monkeypatch.setattr(segment_writer, "FLUSH_SIZE", 30)
    with make_index(tmp_path, 100) as index:
        index.delete(["id7"])
        expected = [hit.id for hit in index.search(make_sets(1, seed=5))[0]]
    (file,) = (tmp_path / "index").glob("*.codes")
    if harm == "truncate":
        os.truncate(file, file.stat().st_size - 10)
    elif harm == "delete":
        file.unlink()
    elif harm == "foreign":
        monkeypatch.setattr(segments, "FORMAT", "other")
    else:
        os.truncate(file, 0)
    with SetIndex.open(tmp_path / "index") as index:
        (problem,) = index.verify()
        assert "missing or damaged" in problem
        assert [hit.id for hit in index.search(make_sets(1, seed=5))[0]] == expected
        assert index.verify() == []
        assert [hit.id for hit in index.search(make_sets(1, seed=5))[0]] == expected


def test_a_search_does_not_wait_for_a_writer_to_rebuild(tmp_path, monkeypatch):
    monkeypatch.setattr(segment_writer, "FLUSH_SIZE", 30)
    with make_index(tmp_path, 40) as writer, SetIndex.open(writer.folder) as reader:
        for file in writer.folder.glob("*.codes"):
            file.unlink()
        with writer._database.writing():
            began = time.monotonic()
            assert len(reader.search(make_sets(1))[0]) == 10
            assert time.monotonic() - began < 20  # of the 60 that a writer waits
        writer.compact()
        changes = writer._database.changes()
        segment_writer.rebuild(writer._database, [segments.Segment(0, 40, 40, "forgotten.codes")])
        assert writer._database.changes() == changes
