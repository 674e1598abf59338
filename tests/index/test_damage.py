"""Damage of stored data is noticed by what reads it, named by verify, and repaired."""

import os
import random
import shutil
import sqlite3
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from index.index_support import SETTINGS, make_index, make_sets

from diverset.errors import DamagedError
from diverset.index import SetIndex, segment_writer
from diverset.index.item_database import FILE
from diverset.index.repair import repair
from diverset.index.verify import verify_folder

ROOT = Path(__file__).parents[2]
pytestmark = pytest.mark.usefixtures("backend")


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """An index of 100 items in segments, 10 that are not yet, and one deleted item."""
    monkeypatch.setattr(segment_writer, "FLUSH_SIZE", 50)
    with make_index(tmp_path, 100, metadata=[{"year": n % 9} for n in range(100)]) as index:
        index.add([f"new{n}" for n in range(10)], make_sets(10, seed=1))
        index.delete(["id7"])
    return tmp_path / "index"


def flip_bit_of(file: Path, content: bytes) -> None:
    """Flip a bit in the middle of the only place where a file has this content."""
    data = file.read_bytes()
    assert data.count(content) == 1
    position = data.index(content) + len(content) // 2
    with open(file, "rb+") as opened:
        opened.seek(position)
        opened.write(bytes([data[position] ^ 0x10]))


def search(folder: Path, **options):
    with SetIndex.open(folder) as index:
        hits = index.search(make_sets(20, seed=9), **options)
        return [[(hit.id, hit.score) for hit in row] for row in hits]


def test_a_damaged_set_in_the_database_is_named_and_restored_from_the_segment(folder):
    expected = search(folder)
    flip_bit_of(folder / FILE, make_sets(100)[20].tobytes())
    assert search(folder) == expected  # reads the copy in the segment
    with SetIndex.open(folder) as index:
        with pytest.raises(DamagedError, match="sets of rows 21 in items.sqlite are damaged"):
            index.get(["id20"])
        (problem,) = index.verify()
    assert problem.startswith("the sets of rows 21 in items.sqlite are damaged; the copies in the")
    assert repair(folder) == ["items.sqlite rewritten with 109 intact items"]
    with SetIndex.open(folder) as index:
        assert np.array_equal(index.get(["id20"]).sets[0], make_sets(100)[20])
        assert index.verify() == []
    assert search(folder) == expected


def test_a_damaged_set_without_a_copy_is_never_searched_and_removed_by_repair(folder):
    flip_bit_of(folder / FILE, make_sets(10, seed=1)[4].tobytes())
    with pytest.raises(DamagedError, match="sets of rows 105"):
        search(folder)
    assert "no other copy" in verify_folder(folder)[0]
    assert "108 intact items; 1 damaged items removed" in repair(folder)[0]
    with SetIndex.open(folder) as index:
        assert index.verify() == []
        assert index.count() == 108
        assert not index.get(["new4"]).ids


def test_a_zeroed_page_anywhere_in_a_segment_does_not_change_a_hit(folder, tmp_path):
    expected = search(folder)
    (file,) = folder.glob("*.codes")
    data = file.read_bytes()
    for start in range(0, len(data), 4096):
        copy = shutil.copytree(folder, tmp_path / f"copy{start}")
        with open(copy / file.name, "rb+") as opened:
            opened.seek(start)
            opened.write(bytes(min(4096, len(data) - start)))
        assert any(file.name in problem for problem in verify_folder(copy))
        assert search(copy) == expected
        assert verify_folder(copy) == []


def test_a_damaged_segment_is_not_merged_into_another(folder):
    (file,) = folder.glob("*.codes")
    flip_bit_of(file, make_sets(100)[30].tobytes())
    with SetIndex.open(folder) as index:
        index.compact()
        assert index.verify() == []
        assert np.array_equal(index.sample(200).sum(), index.sample(200).sum())
        best = index.search(make_sets(100)[30:31], k=1)[0][0]
        assert best.id == "id30"


def test_metadata_that_are_not_json_are_an_error_that_names_the_item(folder):
    with sqlite3.connect(folder / FILE) as connection:
        connection.execute("UPDATE items SET metadata = '{\"year\": ' WHERE id = 'id5'")
    connection.close()
    for call in (
        lambda index: index.search(make_sets(100)[5:6]),
        lambda index: index.get(["id5"]),
        lambda index: list(index.walk()),
    ):
        with SetIndex.open(folder) as index, pytest.raises(DamagedError, match="'id5'"):
            call(index)
    assert "items 'id5' in items.sqlite are damaged" in verify_folder(folder)[0]
    repair(folder)
    with SetIndex.open(folder) as index:
        assert index.count() == 108
        assert index.verify() == []


@pytest.mark.parametrize(
    ("statement", "call"),
    [
        ("UPDATE fields SET value = 8 WHERE row = 1", lambda index: index.count("year = 0")),
        ("DELETE FROM fields WHERE row = 1", lambda index: index.count("year = 0")),
        ("DELETE FROM items WHERE row = 3", lambda index: index.count()),
        ("DELETE FROM items WHERE row = 3", lambda index: index.count("not year = 0")),
        ("DELETE FROM removed", lambda index: index.search(make_sets(1))),
        ("DELETE FROM segments", lambda index: index.search(make_sets(1))),
        ("UPDATE segments SET last = 90", lambda index: index.search(make_sets(1))),
        ("DELETE FROM sets WHERE row = 104", lambda index: index.search(make_sets(1))),
        ("UPDATE properties SET value = '8.0' WHERE key = 'alpha'", lambda index: index.count()),
        ("DELETE FROM properties WHERE key = 'alpha'", lambda index: index.count()),
        ("UPDATE totals SET count = 3 WHERE name = 'items'", lambda index: index.count()),
    ],
)
def test_changed_and_lost_rows_are_noticed_and_repaired(folder, statement, call):
    connection = sqlite3.connect(folder / FILE)
    triggers = connection.execute("SELECT name, sql FROM sqlite_master WHERE type = 'trigger'")
    triggers = triggers.fetchall()
    for name, _ in triggers:
        connection.execute(f"DROP TRIGGER {name}")
    connection.execute(statement)
    for _, sql in triggers:
        connection.execute(sql)
    connection.commit()
    connection.close()
    with pytest.raises(DamagedError, match="damaged|lost"), SetIndex.open(folder) as index:
        call(index)
    assert verify_folder(folder)
    repair(folder, SETTINGS)
    assert verify_folder(folder) == []
    with SetIndex.open(folder) as index:
        call(index)


def test_a_lost_entry_in_the_index_over_ids_is_noticed(folder):
    connection = sqlite3.connect(folder / FILE)
    page = connection.execute(
        "SELECT rootpage FROM sqlite_master WHERE name = 'sqlite_autoindex_items_1'"
    ).fetchone()[0]
    connection.close()
    with open(folder / FILE, "rb+") as file:  # one cell fewer on the page
        file.seek((page - 1) * 4096 + 3)
        count = int.from_bytes(file.read(2), "big")
        file.seek((page - 1) * 4096 + 3)
        file.write((count - 1).to_bytes(2, "big"))
    with SetIndex.open(folder) as index:
        with pytest.raises(DamagedError):
            index.get(["unknown"])
        with pytest.raises(DamagedError):
            list(index.walk())
        with pytest.raises(DamagedError):
            index.add(["another"], make_sets(1))
    repair(folder)
    with SetIndex.open(folder) as index:
        assert index.count() == 109
        assert not index.get(["unknown"]).ids


def test_a_damaged_graph_is_an_error_and_dropped_by_repair(folder):
    pytest.importorskip("faiss")
    with SetIndex.open(folder) as index:
        index.tune(make_sets(20, seed=9), k=3)
    (file,) = folder.glob("means-*.graph")
    data = bytearray(file.read_bytes())
    data[len(data) // 2] ^= 1
    file.write_bytes(data)
    with pytest.raises(DamagedError, match="tune again"):
        search(folder, exact=False)
    (problem,) = verify_folder(folder)
    assert file.name in problem
    assert "tune again" in repair(folder)[0]
    assert verify_folder(folder) == []


def test_what_safetensors_left_after_a_kill_is_deleted_by_the_next_write(folder):
    for name in (".tmpAbC123", "0-9-x.codes.part"):
        (folder / name).write_bytes(b"x")
    with SetIndex.open(folder) as index:
        index.compact()
    assert sorted(file.suffix for file in folder.iterdir()) == [".codes", ".sqlite"]


def test_damage_to_bytes_that_no_table_uses_is_named_and_repaired(folder):
    expected = search(folder)
    data = bytearray((folder / FILE).read_bytes())
    position = data.index(bytes(64))
    data[position + 32] ^= 1
    (folder / FILE).write_bytes(data)
    assert search(folder) == expected
    (problem,) = verify_folder(folder)
    assert "items.sqlite is damaged in bytes that no table uses" in problem
    assert repair(folder) == ["items.sqlite rewritten with 109 intact items"]
    assert verify_folder(folder) == []
    assert search(folder) == expected


def test_random_damage_never_changes_an_answer_silently(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT / "benchmarks"))
    monkeypatch.setattr(segment_writer, "FLUSH_SIZE", 64)
    import damage

    damage.build_index(tmp_path / "good")
    outcomes = Counter(damage.run(damage.trial_index, tmp_path / "good", 8, seed=1))
    assert not [outcome for outcome in outcomes if outcome.startswith("WRONG")], outcomes
    assert outcomes["named and repaired"] > 3


def test_a_database_that_sqlite_cannot_open_is_replaced_by_a_repair(folder):
    data = bytearray((folder / FILE).read_bytes())
    data[:100] = random.Random(0).randbytes(100)
    (folder / FILE).write_bytes(data)
    assert "not a database" in verify_folder(folder)[0]
    assert "0 intact items" in repair(folder, SETTINGS)[0]
    assert verify_folder(folder) == []
    os.truncate(folder / FILE, 20_000)
    assert verify_folder(folder)
