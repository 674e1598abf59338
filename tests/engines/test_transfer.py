"""Moving sets between stores, stopped and taken up again; the source may change meanwhile."""

from contextlib import closing
from dataclasses import replace

import numpy as np
import pytest
from store_support import SETTINGS, some_sets

from diverset.cli import main
from diverset.engines import copy_store, create_store, load_shards, open_store
from diverset.engines.addresses import address_key
from diverset.engines.transfer import Journal
from diverset.errors import DataError, EngineError
from diverset.index import SetIndex
from diverset.index.set_store import Records
from diverset.index.shards import ShardManifest, content_hash, start_shards, write_shard

IDS = [f"{number:02d}" for number in range(25)]
METADATA = [{"number": number} for number in range(25)]


class Stops(SetIndex):
    """Goes away after part calls."""

    def __init__(self, truth) -> None:
        super().__init__(truth)
        self.calls, self.added = 99, []

    def add(self, ids, sets, metadata=None):
        if self.calls == 0:
            raise EngineError("gone")
        self.calls -= 1
        self.added += ids
        super().add(ids, sets, metadata)


@pytest.fixture
def source(tmp_path):
    with SetIndex.create(tmp_path / "source", SETTINGS) as index:
        index.add(IDS, some_sets(25), METADATA)
        yield index


@pytest.fixture
def target(tmp_path):
    with Stops.create(tmp_path / "target", SETTINGS) as index:
        yield index


@pytest.fixture
def other(tmp_path):
    """A target that was made for another model."""
    with SetIndex.create(tmp_path / "other", replace(SETTINGS, model="cafe")) as index:
        yield index


@pytest.fixture
def journal(tmp_path):
    return Journal.between(tmp_path / "notes", "a", "b")


def stop(target, calls, move):
    """A transfer during which the target goes away, and comes back."""
    target.calls = calls
    with pytest.raises(EngineError, match="gone"):
        move()
    target.calls, target.added = 99, []


def same(first, second) -> bool:
    for left, right in zip(first.walk(7), second.walk(7), strict=True):
        np.testing.assert_array_equal(left.sets, right.sets)
        assert left.ids == right.ids and list(left.metadata) == list(right.metadata)
    return True


def test_copies_between_all_stores_preserve_every_item(
    source, target, postgres_address, qdrant_address
):
    with closing(create_store(postgres_address(), SETTINGS)) as postgres:
        with closing(create_store(qdrant_address(), SETTINGS)) as qdrant:
            back, seen = target, []
            assert copy_store(source, postgres, size=10) == 25
            assert copy_store(postgres, qdrant, size=10) == 25
            assert copy_store(qdrant, back, progress=lambda *so: seen.append(so), size=10) == 25
            assert same(source, back) and same(postgres, qdrant)
    assert seen == [("copying", 10, 25), ("copying", 20, 25), ("copying", 25, 25)]


def test_an_interrupted_copy_resumes(source, target, journal):
    stop(target, 2, lambda: copy_store(source, target, journal, size=5))
    assert copy_store(source, target, journal, size=5) == 15
    assert target.added == IDS[10:] and same(source, target) and not journal.file.exists()


def change(index):
    """What leaves as many items as there were, all before the mark."""
    index.add([IDS[0]], some_sets(1, seed=1), [{"number": -1}])
    index.delete([IDS[1]])
    index.add(["00a"], some_sets(1, seed=2), [{}])


def test_a_copy_starts_over_if_the_source_changed_after_the_interruption(source, target, journal):
    stop(target, 2, lambda: copy_store(source, target, journal, size=5))
    change(source)
    assert copy_store(source, target, journal, size=5) == 25
    assert target.delete([IDS[1]]) == 1  # a copy deletes nothing
    assert same(source, target)


def test_a_copy_starts_over_if_the_source_changed_during_the_copy(source, target, journal):
    stop(
        target,
        2,
        lambda: copy_store(
            source, target, journal, lambda _, seen, total: seen == 5 and change(source), size=5
        ),
    )
    assert copy_store(source, target, journal, size=5) == 25
    target.delete([IDS[1]])
    assert same(source, target)


def test_a_copy_starts_over_if_the_source_was_created_again(source, target, journal, tmp_path):
    stop(target, 2, lambda: copy_store(source, target, journal, size=5))
    with SetIndex.create(tmp_path / "anew", SETTINGS) as anew:
        anew.add(IDS, some_sets(25, seed=1), METADATA)
        assert copy_store(anew, target, journal, size=5) == 25 and same(anew, target)


def test_a_copy_from_an_engine_starts_over(source, target, journal, qdrant_address):
    with closing(create_store(qdrant_address(), SETTINGS)) as engine:
        copy_store(source, engine)
        stop(target, 2, lambda: copy_store(engine, target, journal, size=5))
        assert not journal.file.exists()
        assert copy_store(engine, target, journal, size=5) == 25 and same(source, target)


def test_a_copy_starts_over_if_the_target_lost_items(source, target, journal):
    stop(target, 2, lambda: copy_store(source, target, journal, size=5))
    target.delete(IDS)
    assert copy_store(source, target, journal, size=5) == 25 and same(source, target)


@pytest.mark.parametrize("content", ["", "{", "[]", '{"mark": "99"}', '{"mark": 1, "copied": "x"}'])
def test_a_damaged_journal_is_ignored(source, target, journal, content):
    journal.file.parent.mkdir()
    journal.file.write_text(content)
    assert copy_store(source, target, journal) == 25 and same(source, target)


def test_copying_into_a_store_of_another_model_is_rejected(source, target, other):
    with pytest.raises(EngineError, match="model cafe, not feedc0de"):
        copy_store(source, other)
    assert copy_store(source, target) == 25


def write_shards(folder, sets):
    about = ShardManifest(SETTINGS, "numbers", 25, 10, content_hash(IDS))
    start_shards(folder, about)
    for number in about.shards:
        part = slice(number * 10, number * 10 + 10)
        write_shard(folder, number, Records(IDS[part], sets[part], METADATA[part]))


@pytest.fixture
def shards(tmp_path):
    write_shards(tmp_path / "shards", some_sets(25))
    return tmp_path / "shards"


def test_interrupted_loading_of_shards_resumes(source, shards, target, journal):
    stop(target, 1, lambda: load_shards(shards, target, journal))
    assert load_shards(shards, target, journal) == 15
    assert target.added == IDS[10:] and same(source, target)


def test_loading_starts_over_if_shards_were_encoded_again(shards, target, journal):
    stop(target, 1, lambda: load_shards(shards, target, journal))
    write_shards(shards, some_sets(25, seed=1))
    assert load_shards(shards, target, journal) == 25
    np.testing.assert_array_equal(next(target.walk(25)).sets, some_sets(25, seed=1))


def test_ranks_load_disjoint_shards(source, shards, target):
    assert load_shards(shards, target, rank=1, world_size=2) == 10
    assert load_shards(shards, target, rank=0, world_size=2) == 15
    assert same(source, target)


def test_incomplete_shards_and_those_of_another_model_are_rejected(shards, target, other):
    with pytest.raises(EngineError, match="not feedc0de"):
        load_shards(shards, other)
    (shards / "00000001.parquet").unlink()
    with pytest.raises(DataError, match="1 of 3 shards are missing in .*: 1; run diverset encode"):
        load_shards(shards, target)


def test_journals_distinguish_relative_folders_of_equal_name(source, tmp_path, monkeypatch):
    keys = set()
    for name in ("here", "there"):
        (tmp_path / name).mkdir()
        monkeypatch.chdir(tmp_path / name)
        keys |= {address_key("./index"), address_key("index")}
        keys |= {address_key("qdrant:index#x"), address_key("qdrant:./index#x")}
    assert len(keys) == 4
    monkeypatch.chdir(tmp_path)
    assert main(["store", "copy", "source", "./source"]) == 2


def test_store_copy_and_load_shards_from_the_command_line(
    shards, source, address, qdrant_address, tmp_path, monkeypatch, capsys
):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    first, second = address(), qdrant_address()
    assert main(["store", "load-shards", first, str(shards)]) == 0
    assert main(["store", "copy", first, second]) == 0
    assert capsys.readouterr().out.count("25 items written, 25 in the store") == 2
    with closing(open_store(second)) as store:
        assert same(source, store)
    assert main(["store", "copy", first, first]) == 2
    assert "the same" in capsys.readouterr().err
    assert main(["store", "load-shards", first, str(tmp_path)]) == 2
    assert "diverset encode" in capsys.readouterr().err
    assert main(["store"]) == 2 and "load-shards" in capsys.readouterr().out
