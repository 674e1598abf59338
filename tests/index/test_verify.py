"""`verify` finds every inconsistency between the database and the segments."""

import numpy as np
import pytest
import torch
from index.index_support import SETTINGS, make_index, make_sets

from diverset.errors import DamagedError
from diverset.index import SetIndex, segment_writer, segments
from diverset.index.repair import repair
from diverset.index.schema import insert_set


def test_verify_finds_rows_that_no_segment_covers(tmp_path, monkeypatch):
    monkeypatch.setattr(segment_writer, "FLUSH_SIZE", 10)
    with make_index(tmp_path) as index:
        for n in range(4):
            index.add([f"{n}-{i}" for i in range(10)], make_sets(10, seed=n))
        lost = segment_writer.list_segments(index._database)[1]
        with index._database.writing() as connection:
            connection.execute("DELETE FROM segments WHERE first = ?", (lost.first,))
        (problem,) = index.verify()
        assert problem == "rows 11, 12, 13 and 7 more are in no segment; compact the index"
        index.compact()
        assert index.verify() == []
        assert len(index.search(make_sets(1), k=100)[0]) == 40


def test_verify_finds_stale_and_missing_rows_of_a_segment(tmp_path, monkeypatch):
    monkeypatch.setattr(segment_writer, "FLUSH_SIZE", 30)
    with make_index(tmp_path, 40) as index:
        index.delete(["id3"])
        assert index.verify() == []
        with index._database.writing() as connection:
            connection.execute("DELETE FROM removed")
        (problem,) = index.verify()
        assert "has deleted rows 4; items.sqlite is right: --repair rebuilds the file" in problem
        (segment,) = segment_writer.list_segments(index._database)
        codes = segments.read(index.folder, segment, SETTINGS).take(torch.arange(39))
        part = segments.write(index.folder, codes, SETTINGS, segment.first, segment.last)
        with index._database.writing() as connection:
            segment_writer._replace(connection, [segment], [part])
        assert any("lacks rows 40" in problem for problem in index.verify())
        with pytest.raises(DamagedError, match="rows 4 of items in items.sqlite are lost"):
            index.search(make_sets(1), k=100)
    assert repair(tmp_path / "index") == ["1 segments rebuilt from items.sqlite"]
    with SetIndex.open(tmp_path / "index") as index:
        assert len(index.search(make_sets(1), k=100)[0]) == 39
        assert index.verify() == []


def test_verify_finds_wrong_bounds_and_invalid_sets(tmp_path, monkeypatch):
    monkeypatch.setattr(segment_writer, "FLUSH_SIZE", 30)
    with make_index(tmp_path, 100) as index:
        (segment,) = segment_writer.list_segments(index._database)
        codes = segments.read(index.folder, segment, SETTINGS)
        codes.error.mul_(0.5)
        bad = segments.write(index.folder, codes, SETTINGS, segment.first, segment.last)
        with index._database.writing() as connection:
            segment_writer._replace(connection, [segment], [bad])
        assert "wrong sets or bounds" in index.verify()[0]
        with index._database.writing() as connection:
            connection.execute("DELETE FROM sets WHERE row = 3")
            insert_set(connection, 3, np.zeros((3, 16), dtype="<f4").tobytes())
        assert "unit length" in index.verify()[0]
        index._database.connection.execute("DELETE FROM sets WHERE row = 4")
        assert "in items but not in sets" in index.verify()[0]
