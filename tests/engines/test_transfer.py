"""Moving sets between stores, stopped and taken up again."""

from contextlib import closing
from dataclasses import replace

import numpy as np
import pytest
from store_support import SETTINGS, MemoryStore, some_sets

from diverset.cli import main
from diverset.engines import add_shards, copy_store, create_store, open_store
from diverset.engines.transfer import Journal
from diverset.errors import DataError, EngineError
from diverset.index.base import Records
from diverset.index.shards import About, begin, digest_of, write_shard

IDS = [f"{number:02d}" for number in range(25)]
METADATA = [{"number": number} for number in range(25)]


class Stops(MemoryStore):
    """Goes away after some calls."""

    def __init__(self, calls: int) -> None:
        super().__init__(SETTINGS)
        self.calls, self.asked = calls, []

    def add(self, ids, sets, metadata=None):
        if self.calls == 0:
            raise EngineError("gone")
        self.calls -= 1
        self.asked += ids
        super().add(ids, sets, metadata)


@pytest.fixture
def source():
    store = MemoryStore(SETTINGS)
    store.add(IDS, some_sets(25), METADATA)
    return store


def same(first, second) -> bool:
    for one, other in zip(first.walk(7), second.walk(7), strict=True):
        np.testing.assert_array_equal(one.sets, other.sets)
        assert one.ids == other.ids and list(one.metadata) == list(other.metadata)
    return True


def test_from_engine_to_engine_and_back(source, postgres_address, qdrant_address):
    with closing(create_store(postgres_address(), SETTINGS)) as postgres:
        with closing(create_store(qdrant_address(), SETTINGS)) as qdrant:
            back, seen = MemoryStore(SETTINGS), []
            assert copy_store(source, postgres, size=10) == 25
            assert copy_store(postgres, qdrant, size=10) == 25
            assert copy_store(qdrant, back, progress=lambda *so: seen.append(so), size=10) == 25
            assert same(source, back) and same(postgres, qdrant)
    assert seen == [("copying", 10, 25), ("copying", 20, 25), ("copying", 25, 25)]


def test_a_copy_goes_on_where_it_was(source, tmp_path):
    journal = Journal.between(tmp_path / "notes", "a", "b")
    target = Stops(calls=2)
    with pytest.raises(EngineError, match="gone"):
        copy_store(source, target, journal, size=5)
    target.calls = 99
    assert copy_store(source, target, journal, size=5) == 15
    assert target.asked == IDS and same(source, target) and not journal.file.exists()


def test_a_note_about_a_target_that_was_emptied_is_not_believed(source, tmp_path):
    journal = Journal.between(tmp_path, "a", "b")
    with pytest.raises(EngineError):
        copy_store(source, Stops(calls=2), journal, size=5)
    anew = MemoryStore(SETTINGS)
    assert copy_store(source, anew, journal, size=5) == 25 and same(source, anew)


@pytest.mark.parametrize("note", ["", "{", "[]", '{"after": "99"}', '{"after": 1, "moved": "x"}'])
def test_a_damaged_note_is_no_note(source, tmp_path, note):
    journal = Journal.between(tmp_path, "a", "b")
    journal.file.write_text(note)
    target = MemoryStore(SETTINGS)
    assert copy_store(source, target, journal) == 25 and same(source, target)


def test_sets_of_another_model_are_not_mixed(source):
    with pytest.raises(EngineError, match="sets of model cafe, not of feedc0de"):
        copy_store(source, MemoryStore(replace(SETTINGS, model="cafe")))
    assert copy_store(source, MemoryStore(SETTINGS)) == 25


@pytest.fixture
def shards(tmp_path):
    folder, sets = tmp_path / "shards", some_sets(25)
    about = About(SETTINGS, "numbers", 25, 10, digest_of(IDS))
    begin(folder, about)
    for number in about.numbers:
        some = slice(number * 10, number * 10 + 10)
        write_shard(folder, number, Records(IDS[some], sets[some], METADATA[some]))
    return folder


def test_shards_are_added_and_taken_up_again(source, shards, tmp_path):
    journal = Journal.between(tmp_path, "shards", "b")
    target = Stops(calls=1)
    with pytest.raises(EngineError):
        add_shards(shards, target, journal)
    target.calls = 99
    assert add_shards(shards, target, journal) == 15
    assert target.asked == IDS and same(source, target)


def test_processes_share_the_shards(source, shards):
    target = MemoryStore(SETTINGS)
    assert add_shards(shards, target, rank=1, world=2) == 10
    assert add_shards(shards, target, rank=0, world=2) == 15
    assert same(source, target)


def test_incomplete_and_foreign_shards_are_refused(shards):
    with pytest.raises(EngineError, match="not of feedc0de"):
        add_shards(shards, MemoryStore(replace(SETTINGS, model="cafe")))
    (shards / "00000001.parquet").unlink()
    with pytest.raises(DataError, match="1 of 3 shards are not in .*: 1; run diverset encode"):
        add_shards(shards, MemoryStore(SETTINGS))


def test_the_verbs(shards, source, address, qdrant_address, tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    first, second = address(), qdrant_address()
    assert main(["index", "add-shards", first, str(shards)]) == 0
    assert main(["index", "copy", first, second]) == 0
    assert capsys.readouterr().out.count("25 items written, 25 in the index") == 2
    with closing(open_store(second)) as store:
        assert same(source, store)
    assert main(["index", "copy", first, first]) == 2
    assert "the same" in capsys.readouterr().err
    assert main(["index", "add-shards", first, str(tmp_path)]) == 2
    assert "diverset encode" in capsys.readouterr().err
    assert main(["index"]) == 2 and "add-shards" in capsys.readouterr().out
