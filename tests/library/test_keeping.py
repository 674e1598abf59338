"""Watching folders, and taking sets out of a library."""

import shutil
import subprocess
import sys

import numpy as np
import pytest
from library.making import make_model, make_picture, make_pictures

from diverset.cli import main
from diverset.errors import DataError, RebuiltError
from diverset.library.exporting import export
from diverset.library.indexing import index_folders
from diverset.library.library import Library
from diverset.library.tables import index_table
from diverset.library.watching import watch


@pytest.fixture
def library(tmp_path):
    make_pictures(tmp_path / "photos", 4)
    with Library.prepare(tmp_path / "library", make_model(tmp_path / "model")) as opened:
        yield opened


def test_what_comes_and_goes_is_noticed(library, tmp_path, monkeypatch):
    photos, said = tmp_path / "photos", []
    changes = iter(
        [
            lambda: make_picture(photos / "new.png", 9),
            lambda: (photos / "0.png").unlink(),
            lambda: (photos / "half.jpg").write_bytes(b"not yet"),
            lambda: None,
            lambda: photos.rename(tmp_path / "away"),
            lambda: (tmp_path / "away").rename(photos),
        ]
    )
    monkeypatch.setattr("time.sleep", lambda _: next(changes)())
    watch(library, [photos], 1, said.append, turns=7)
    assert ["4 encoded" in said[0], "1 encoded" in said[1], "1 forgotten" in said[2]] == [True] * 3
    assert "1 skipped" in said[3] and "half.jpg" in said[4] and "not plugged in" in said[5]
    assert len(said) == 6 and library.pictures.count() == 4


def test_export_in_parts(library, tmp_path, capsys):
    parquet = pytest.importorskip("pyarrow.parquet")
    index_folders(library, [tmp_path / "photos"])
    assert export(library, tmp_path / "out", part=3) == {"pictures": 4}
    sets = np.concatenate(
        [np.load(file) for file in sorted((tmp_path / "out" / "img_emb").iterdir())]
    )
    rows = [
        row
        for file in sorted((tmp_path / "out" / "metadata").iterdir())
        for row in parquet.read_table(file).to_pylist()
    ]
    stored = library.pictures.get([row["id"] for row in rows])
    np.testing.assert_array_equal(sets, stored.sets)
    assert rows[0]["width"] == 40 and rows[0]["path"] == rows[0]["id"]
    with pytest.raises(DataError, match="not empty"):
        export(library, tmp_path / "out")
    assert main(["export", str(tmp_path / "b"), "--library", str(library.folder)]) == 0
    assert "4 pictures" in capsys.readouterr().out


FAULTS = """
import resource
import sys

import numpy as np
from diverset.cli import main

def faults():
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    np.ones(25_000_000).sum()
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before

if len(sys.argv) > 1:
    assert main(sys.argv[1:]) == 0
faults()
print("faults", faults())
"""


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="of glibc")
def test_indexing_keeps_freed_memory(tmp_path):
    """A block of 200 MB that was freed is asked for again without a page fault for each page."""
    where = ["index", str(make_pictures(tmp_path / "photos", 2)), "--library", str(tmp_path / "l")]
    given = [*where, "--model", make_model(tmp_path / "model")]

    def counted(*arguments):
        command = [sys.executable, "-c", FAULTS, *arguments]
        done = subprocess.run(command, capture_output=True, text=True, check=True)
        return int(done.stdout.split()[-1])

    assert counted() > 100 * max(counted(*given), 1)


def test_watching_a_library_that_was_rebuilt_ends(library, tmp_path, monkeypatch):
    def rebuild(_):
        Library.prepare(library.folder, rebuild=True).close()

    monkeypatch.setattr("time.sleep", rebuild)
    with pytest.raises(RebuiltError, match="rebuilt by another process"):
        watch(library, [tmp_path / "photos"], 1, lambda _: None, turns=3)


def test_a_library_that_was_removed_is_noticed(library):
    library.check_current()
    shutil.rmtree(library.folder)
    with pytest.raises(RebuiltError, match="was removed"):
        library.check_current()


def texts_of(library):
    return {
        one: said["text"]
        for part in library.texts.walk(100)
        for one, said in zip(part.ids, part.metadata, strict=True)
    }


def test_a_table_that_changes_columns_rows_and_is_stopped(library, tmp_path, monkeypatch):
    table, reports = tmp_path / "t.csv", []
    table.write_text("text,said\n" + "".join(f"a dog {n},snow {n}\n" for n in range(300)))
    assert index_table(library, table, report=reports.append) == (300, 300)
    assert str(reports[0]).startswith("128 of 300 texts, ") and reports[0].rate > 0
    assert index_table(library, table) == (300, 0)
    assert index_table(library, table, "said") == (300, 300)
    assert texts_of(library)[f"{table}#7"] == "snow 7"
    table.write_text("text,said\n" + "".join(f"a dog {n},snow {n}\n" for n in range(400)))
    monkeypatch.setattr(library.catalog, "put_table", stopped_at_the_second(library.catalog))
    with pytest.raises(KeyboardInterrupt):
        index_table(library, table)
    monkeypatch.undo()
    table.write_text("text,said\na dog,snow\n")
    assert index_table(library, table) == (1, 1)  # of the column of the last time
    assert texts_of(library) == {f"{table}#0": "snow"}


def stopped_at_the_second(catalog):
    turns, put = iter([catalog.put_table]), catalog.put_table

    def stopping(table):
        if next(turns, None) is None:
            raise KeyboardInterrupt
        put(table)

    return stopping
