"""Losing or damaging any file of a library is noticed by every verb and repaired by `index`."""

import os
import sqlite3
from contextlib import closing
from pathlib import Path

import numpy as np
import pytest
from photos.library_support import make_images, make_model

from diverset.cli import main
from diverset.errors import DamagedError, DataError, RebuiltError
from diverset.index import segment_writer
from diverset.photos.library.catalog import CATALOG_FILE, INDEXED, PENDING
from diverset.photos.library.indexing import index_folders
from diverset.photos.library.library import Library
from diverset.photos.library.snapshot import restore, snapshot
from diverset.photos.library.verification import find_problems, repair_library


@pytest.fixture
def photos(tmp_path):
    return make_images(tmp_path / "photos", 8)


@pytest.fixture
def folder(tmp_path, photos, monkeypatch):
    """A library of 8 images with a segment, and of 3 texts; closed."""
    monkeypatch.setattr(segment_writer, "FLUSH_SIZE", 4)
    (tmp_path / "texts.csv").write_text("caption\na dog\na cat\nsnow\n")
    sources = [str(photos), str(tmp_path / "texts.csv")]
    model = make_model(tmp_path / "model")
    assert main(["index", *sources, "--library", str(tmp_path / "lib"), "--model", model]) == 0
    return tmp_path / "lib"


def content(folder: Path) -> dict:
    """Everything that a library stores, as values that can be compared."""
    with Library.open(folder) as library:
        files = {record.path: record for record in library.catalog.files()}
        stored = {
            item: (elements, metadata)
            for name in ("images", "texts")
            for part in getattr(library, name).walk(100)
            for item, elements, metadata in zip(part.ids, part.sets, part.metadata, strict=True)
        }
        hits = library.images.search(library.images.get([next(iter(sorted(files)))]).sets, k=20)
        roots, tables = library.catalog.roots, library.catalog.tables()
        return {
            "files": files,
            "stored": stored,
            "hits": [(hit.id, hit.score) for hit in hits[0]],
            "roots": roots,
            "tables": tables,
        }


def assert_same(found: dict, expected: dict) -> None:
    """Sets that were encoded again, in another batch, differ in their last bits."""
    for name in ("files", "roots", "tables"):
        assert found[name] == expected[name]
    assert found["stored"].keys() == expected["stored"].keys()
    for item, (elements, metadata) in expected["stored"].items():
        assert found["stored"][item][1] == metadata
        np.testing.assert_allclose(found["stored"][item][0], elements, atol=1e-6)
    np.testing.assert_allclose(
        [score for _, score in found["hits"]], [score for _, score in expected["hits"]], atol=1e-6
    )


def items_file(folder: Path) -> Path:
    [file] = folder.glob("images-*/items.sqlite")
    return file


def test_a_lost_catalog_leaves_no_sets_of_files_that_are_gone(folder, photos, capsys):
    (folder / CATALOG_FILE).unlink()
    assert main(["search", "a dog", "--library", str(folder)]) == 2
    assert "files.sqlite, with the list of indexed folders, is missing" in capsys.readouterr().err
    for number in range(3):
        (photos / f"{number}.png").unlink()
    model = str(folder.parent / "model")
    assert main(["index", str(photos), "--library", str(folder), "--model", model]) == 0
    with Library.open(folder) as library:
        assert library.images.count() == library.catalog.count(INDEXED) == 5
        assert len(library.images.search(library.images.sample(1), k=100)[0]) == 5
    assert len(list(folder.glob("images-*"))) == 1
    assert find_problems(folder) == []


@pytest.mark.parametrize("harm", ["delete", "empty"])
def test_a_lost_database_of_sets_is_noticed_by_every_verb_and_encoded_again(folder, harm, capsys):
    expected = content(folder)
    file = items_file(folder)
    file.unlink() if harm == "delete" else os.truncate(file, 0)
    for verb in (["status"], ["search", "a dog"], ["verify"], ["export", str(folder) + ".out"]):
        assert main([*verb, "--library", str(folder)]) in (1, 2)
        output = capsys.readouterr()
        assert "with the sets of 8 images" in output.out + output.err
    assert main(["index", "--all", "--library", str(folder)]) == 0
    assert "8 encoded" in capsys.readouterr().out
    assert_same(content(folder), expected)
    assert find_problems(folder) == []


@pytest.mark.parametrize("size", [0, 100, 5000, None])
def test_any_lost_or_truncated_file_is_repaired_by_index(folder, photos, size, tmp_path):
    expected = content(folder)
    files = [file for file in folder.rglob("*") if file.is_file() and file.name != "lock"]
    assert {file.suffix for file in files} == {".sqlite", ".codes"}
    for file in sorted(files, key=lambda file: file.suffix):
        if not file.exists():
            continue
        file.unlink() if size is None else os.truncate(file, min(size, file.stat().st_size - 1))
        assert find_problems(folder), file
        sources = [str(photos), str(tmp_path / "texts.csv"), "--model", str(tmp_path / "model")]
        assert main(["index", *sources, "--library", str(folder)]) == 0
        assert_same(content(folder), expected)
        assert find_problems(folder) == [], file


def test_status_names_a_lost_segment(folder, capsys):
    [segment] = folder.glob("images-*/*.codes")
    segment.unlink()
    assert main(["status", "--library", str(folder)]) == 0
    assert f"damaged   {segment} is missing or truncated" in capsys.readouterr().out
    assert main(["index", "--all", "--library", str(folder)]) == 0
    assert "repaired" in capsys.readouterr().err
    assert len(list(folder.glob("images-*/*.codes"))) == 1


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE files SET digest = 'x' WHERE path LIKE '%3.png'",
        "UPDATE roots SET path = '/elsewhere'",
        "UPDATE tables SET items = 2",
        "UPDATE info SET value = '\"x\"' WHERE key = 'model'",
        "UPDATE totals SET count = 7 WHERE name = 'files'",
    ],
)
def test_a_changed_record_is_noticed_and_repaired(folder, photos, statement, tmp_path):
    expected = content(folder)
    with closing(sqlite3.connect(folder / CATALOG_FILE)) as connection, connection:
        connection.execute(statement)
    assert "is damaged" in find_problems(folder)[0]
    with pytest.raises(DamagedError), Library.open(folder) as library:
        library.catalog.check()
    assert repair_library(folder) is not None
    sources = [str(photos), str(tmp_path / "texts.csv"), "--model", str(tmp_path / "model")]
    assert main(["index", *sources, "--library", str(folder)]) == 0
    assert_same(content(folder), expected)
    assert find_problems(folder) == []


def test_damaged_metadata_end_a_search_with_a_message_and_are_encoded_again(folder, capsys):
    expected = content(folder)
    with closing(sqlite3.connect(items_file(folder))) as connection, connection:
        connection.execute("UPDATE items SET metadata = 'no JSON' WHERE id LIKE '%3.png'")
    assert main(["search", "a dog", "--library", str(folder)]) == 2
    assert "3.png' (row 4) in items.sqlite is damaged" in capsys.readouterr().err
    assert main(["verify", "--library", str(folder)]) == 1
    assert "3.png' in items.sqlite are damaged" in capsys.readouterr().out
    assert main(["verify", "--repair", "--library", str(folder)]) == 0
    with Library.open(folder) as library:
        assert library.catalog.count(PENDING) == 1
    assert main(["index", "--all", "--library", str(folder)]) == 0
    assert "1 encoded" in capsys.readouterr().out
    assert_same(content(folder), expected)


def test_sets_without_a_record_are_named_and_removed(folder):
    with Library.open(folder) as library:
        sets = library.images.sample(1)
        library.images.add(["/nowhere/orphan.png"], sets, [{}])
    assert "'/nowhere/orphan.png' have a set but are not in the catalog" in find_problems(folder)[0]
    with Library.open_or_create(folder) as library:
        assert index_folders(library).repaired == ["1 sets without a record removed"]
    assert find_problems(folder) == []


def test_a_snapshot_is_a_library_and_can_be_restored(folder, photos, tmp_path, capsys):
    expected = content(folder)
    copy = str(tmp_path / "snapshot")
    with Library.open(folder) as in_use:
        in_use.images.count()
        assert main(["snapshot", copy, "--library", str(folder)]) == 0
        with pytest.raises(DataError, match="exists"):
            snapshot(in_use, tmp_path / "snapshot")
        assert_same(content(tmp_path / "snapshot"), expected)
        for number in range(4):
            (photos / f"{number}.png").unlink()
        assert main(["index", "--all", "--library", str(folder)]) == 0
        assert len(content(folder)["files"]) == 4
        assert main(["restore", copy, "--library", str(folder)]) == 0
        assert "8 photos restored" in capsys.readouterr().out
        with pytest.raises(RebuiltError):
            in_use.check_current()
    assert_same(content(folder), expected)
    assert find_problems(folder) == []
    assert len(list(folder.glob("images-*"))) == 1
    restore(tmp_path / "snapshot", tmp_path / "another")
    assert_same(content(tmp_path / "another"), expected)


def test_a_snapshot_replaces_a_library_that_is_damaged(folder, tmp_path):
    expected = content(folder)
    with Library.open(folder) as library:
        snapshot(library, tmp_path / "snapshot")
    (folder / CATALOG_FILE).write_bytes(b"no database" * 1000)
    items_file(folder).unlink()
    restore(tmp_path / "snapshot", folder)
    assert_same(content(folder), expected)
    assert find_problems(folder) == []


def test_a_damaged_snapshot_is_not_restored(folder, tmp_path):
    with Library.open(folder) as library:
        snapshot(library, tmp_path / "snapshot")
    file = items_file(tmp_path / "snapshot")
    os.truncate(file, file.stat().st_size - 4096)
    expected = content(folder)
    with pytest.raises(DamagedError, match="cannot be restored"):
        restore(tmp_path / "snapshot", folder)
    assert_same(content(folder), expected)


def test_a_damaged_library_gives_no_snapshot(folder, tmp_path):
    with closing(sqlite3.connect(items_file(folder))) as connection, connection:
        connection.execute("UPDATE items SET metadata = 'no JSON' WHERE id LIKE '%3.png'")
    with Library.open(folder) as library, pytest.raises(DamagedError, match="is damaged"):
        snapshot(library, tmp_path / "snapshot")
    assert not (tmp_path / "snapshot").exists()


def test_any_changed_byte_of_a_closed_library_or_snapshot_is_named(folder, photos, tmp_path):
    with Library.open(folder) as library:
        snapshot(library, tmp_path / "snapshot")
    expected = content(folder)
    for copy in (folder, tmp_path / "snapshot"):
        databases = [copy / CATALOG_FILE, *copy.glob("*/items.sqlite")]
        assert len(databases) == 3
        for file in databases:
            data = bytearray(file.read_bytes())
            data[data.index(bytes(64)) + 32] ^= 1
            file.write_bytes(data)
        problems = find_problems(copy)
        assert [problem.count("bytes that no table uses") for problem in problems] == [1, 1, 1]
        repair_library(copy)
        assert find_problems(copy) == []
    assert_same(content(folder), expected)


def test_random_damage_never_changes_an_answer_silently(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(str(Path(__file__).parents[3] / "benchmarks"))
    monkeypatch.setattr(segment_writer, "FLUSH_SIZE", 64)
    import damage

    damage.build_library(tmp_path / "good")
    outcomes = list(damage.run(damage.trial_library, tmp_path / "good", 5, seed=2))
    assert not [outcome for outcome in outcomes if outcome.startswith("WRONG")], outcomes
    assert all(outcome.startswith("named") for outcome in outcomes)


def test_a_damaged_schema_that_is_not_even_text_is_noticed_and_indexed_again(
    folder, photos, tmp_path
):
    expected = content(folder)
    sources = [str(photos), str(tmp_path / "texts.csv"), "--model", str(tmp_path / "model")]
    for name in (CATALOG_FILE, "images-*/items.sqlite"):
        [file] = folder.glob(name)
        data = file.read_bytes()
        position = data.rindex(b"TRIGGER")
        file.write_bytes(data[: position + 2] + b"\xc9" + data[position + 3 :])
        assert "damaged" in find_problems(folder)[0]
        assert main(["index", *sources, "--library", str(folder)]) == 0
        assert_same(content(folder), expected)
        assert find_problems(folder) == []
