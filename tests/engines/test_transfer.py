"""Moving sets between stores, stopped and taken up again; the source may change meanwhile."""

from contextlib import closing
from dataclasses import replace

import numpy as np
import pytest
from store_support import SETTINGS, some_sets

from diverset.cli import main
from diverset.engines import add_shards, copy_store, create_store, open_store
from diverset.engines.addresses import address_key
from diverset.engines.transfer import Journal
from diverset.errors import DataError, EngineError
from diverset.index import SetIndex
from diverset.index.base import Records
from diverset.index.shards import About, begin, digest_of, write_shard

IDS = [f"{number:02d}" for number in range(25)]
METADATA = [{"number": number} for number in range(25)]


class Stops(SetIndex):
    """Goes away after some calls."""

    def __init__(self, truth) -> None:
        super().__init__(truth)
        self.calls, self.asked = 99, []

    def add(self, ids, sets, metadata=None):
        if self.calls == 0:
            raise EngineError("gone")
        self.calls -= 1
        self.asked += ids
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
    target.calls, target.asked = 99, []


def same(first, second) -> bool:
    for one, other in zip(first.walk(7), second.walk(7), strict=True):
        np.testing.assert_array_equal(one.sets, other.sets)
        assert one.ids == other.ids and list(one.metadata) == list(other.metadata)
    return True


def test_from_engine_to_engine_and_back(source, target, postgres_address, qdrant_address):
    with closing(create_store(postgres_address(), SETTINGS)) as postgres:
        with closing(create_store(qdrant_address(), SETTINGS)) as qdrant:
            back, seen = target, []
            assert copy_store(source, postgres, size=10) == 25
            assert copy_store(postgres, qdrant, size=10) == 25
            assert copy_store(qdrant, back, progress=lambda *so: seen.append(so), size=10) == 25
            assert same(source, back) and same(postgres, qdrant)
    assert seen == [("copying", 10, 25), ("copying", 20, 25), ("copying", 25, 25)]


def test_a_copy_goes_on_where_it_was(source, target, journal):
    stop(target, 2, lambda: copy_store(source, target, journal, size=5))
    assert copy_store(source, target, journal, size=5) == 15
    assert target.asked == IDS[10:] and same(source, target) and not journal.file.exists()


def change(index):
    """What leaves as many items as there were, all before the mark."""
    index.add([IDS[0]], some_sets(1, seed=1), [{"number": -1}])
    index.delete([IDS[1]])
    index.add(["00a"], some_sets(1, seed=2), [{}])


def test_a_source_that_changed_meanwhile_is_copied_again(source, target, journal):
    stop(target, 2, lambda: copy_store(source, target, journal, size=5))
    change(source)
    assert copy_store(source, target, journal, size=5) == 25
    assert target.delete([IDS[1]]) == 1  # a copy deletes nothing
    assert same(source, target)


def test_a_source_that_changes_while_it_is_copied_is_copied_again(source, target, journal):
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


def test_a_source_that_was_made_anew_is_copied_again(source, target, journal, tmp_path):
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


def test_a_note_about_a_target_that_was_emptied_is_not_believed(source, target, journal):
    stop(target, 2, lambda: copy_store(source, target, journal, size=5))
    target.delete(IDS)
    assert copy_store(source, target, journal, size=5) == 25 and same(source, target)


@pytest.mark.parametrize("note", ["", "{", "[]", '{"after": "99"}', '{"after": 1, "moved": "x"}'])
def test_a_damaged_note_is_no_note(source, target, journal, note):
    journal.file.parent.mkdir()
    journal.file.write_text(note)
    assert copy_store(source, target, journal) == 25 and same(source, target)


def test_sets_of_another_model_are_not_mixed(source, target, other):
    with pytest.raises(EngineError, match="sets of model cafe, not of feedc0de"):
        copy_store(source, other)
    assert copy_store(source, target) == 25


def write_shards(folder, sets):
    about = About(SETTINGS, "numbers", 25, 10, digest_of(IDS))
    begin(folder, about)
    for number in about.numbers:
        some = slice(number * 10, number * 10 + 10)
        write_shard(folder, number, Records(IDS[some], sets[some], METADATA[some]))


@pytest.fixture
def shards(tmp_path):
    write_shards(tmp_path / "shards", some_sets(25))
    return tmp_path / "shards"


def test_shards_are_added_and_taken_up_again(source, shards, target, journal):
    stop(target, 1, lambda: add_shards(shards, target, journal))
    assert add_shards(shards, target, journal) == 15
    assert target.asked == IDS[10:] and same(source, target)


def test_shards_that_were_encoded_again_meanwhile_are_added_again(shards, target, journal):
    stop(target, 1, lambda: add_shards(shards, target, journal))
    write_shards(shards, some_sets(25, seed=1))
    assert add_shards(shards, target, journal) == 25
    np.testing.assert_array_equal(next(target.walk(25)).sets, some_sets(25, seed=1))


def test_processes_share_the_shards(source, shards, target):
    assert add_shards(shards, target, rank=1, world=2) == 10
    assert add_shards(shards, target, rank=0, world=2) == 15
    assert same(source, target)


def test_incomplete_and_foreign_shards_are_refused(shards, target, other):
    with pytest.raises(EngineError, match="not of feedc0de"):
        add_shards(shards, other)
    (shards / "00000001.parquet").unlink()
    with pytest.raises(DataError, match="1 of 3 shards are not in .*: 1; run diverset encode"):
        add_shards(shards, target)


def test_notes_tell_folders_of_one_name_apart(source, tmp_path, monkeypatch):
    found = set()
    for name in ("here", "there"):
        (tmp_path / name).mkdir()
        monkeypatch.chdir(tmp_path / name)
        found |= {address_key("./index"), address_key("index")}
        found |= {address_key("qdrant:index#x"), address_key("qdrant:./index#x")}
    assert len(found) == 4
    monkeypatch.chdir(tmp_path)
    assert main(["index", "copy", "source", "./source"]) == 2


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
