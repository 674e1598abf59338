"""Watching folders, exporting sets, and indexing tables."""

import shutil
import subprocess
import sys

import numpy as np
import pytest
from photos.library_support import make_image, make_images, make_model

from diverset.cli import main
from diverset.errors import DataError, RebuiltError
from diverset.photos.library.exporting import export
from diverset.photos.library.indexing import index_folders
from diverset.photos.library.library import Library
from diverset.photos.library.tables import index_table
from diverset.photos.library.watching import watch
from diverset.runtime.progress import Progress


@pytest.fixture
def library(tmp_path):
    make_images(tmp_path / "photos", 4)
    with Library.open_or_create(tmp_path / "library", make_model(tmp_path / "model")) as opened:
        yield opened


def test_watch_reports_new_removed_and_unreadable_files_once(library, tmp_path, monkeypatch):
    photos, messages = tmp_path / "photos", []
    changes = iter(
        [
            lambda: make_image(photos / "new.png", 9),
            lambda: (photos / "0.png").unlink(),
            lambda: (photos / "half.jpg").write_bytes(b"not yet"),
            lambda: None,
            lambda: photos.rename(tmp_path / "away"),
            lambda: (tmp_path / "away").rename(photos),
        ]
    )
    monkeypatch.setattr("time.sleep", lambda _: next(changes)())
    watch(library, [photos], 1, messages.append, rounds=7)
    expected = ["4 encoded", "1 encoded", "1 removed", "1 skipped", "half.jpg", "not connected"]
    for message, text in zip(messages, expected, strict=True):
        assert text in message
    assert library.images.count() == 4


def test_watch_names_a_missing_folder_at_once_and_indexes_the_others(
    library, tmp_path, monkeypatch
):
    messages = []
    changes = iter([lambda: None, lambda: make_images(tmp_path / "disk", 6)])
    monkeypatch.setattr("time.sleep", lambda _: next(changes)())
    watch(library, [tmp_path / "disk", tmp_path / "photos"], 1, messages.append, rounds=3)
    missing, *indexed = messages
    assert missing.startswith(f"there is no folder {tmp_path / 'disk'}; check the path")
    assert ["4 encoded" in indexed[0], "2 encoded" in indexed[1], len(indexed)] == [True, True, 2]
    assert library.images.count() == 10


def test_watch_waits_for_a_folder_without_indexing_others_of_the_library(library, tmp_path):
    index_folders(library, [tmp_path / "photos"])
    make_image(tmp_path / "photos/new.png", 9)
    messages = []
    watch(library, [tmp_path / "disk"], 0, messages.append, rounds=2)
    [message] = messages
    assert "it is watched once it is there" in message
    assert library.images.count() == 4


def test_watch_rejects_a_file(tmp_path, capsys):
    photo = make_image(tmp_path / "a.png", 0)
    assert main(["watch", str(photo), "--library", str(tmp_path / "library")]) == 2
    assert "is a file; give a folder" in capsys.readouterr().err


def test_export_writes_all_sets_and_metadata_in_parts(library, tmp_path, capsys):
    parquet = pytest.importorskip("pyarrow.parquet")
    index_folders(library, [tmp_path / "photos"])
    assert export(library, tmp_path / "out", part_size=3) == {"images": 4}
    sets = np.concatenate(
        [np.load(file) for file in sorted((tmp_path / "out" / "img_emb").iterdir())]
    )
    rows = [
        row
        for file in sorted((tmp_path / "out" / "metadata").iterdir())
        for row in parquet.read_table(file).to_pylist()
    ]
    stored = library.images.get([row["id"] for row in rows])
    np.testing.assert_array_equal(sets, stored.sets)
    assert rows[0]["width"] == 40 and rows[0]["path"] == rows[0]["id"]
    with pytest.raises(DataError, match="not empty"):
        export(library, tmp_path / "out")
    assert main(["export", str(tmp_path / "b"), "--library", str(library.folder)]) == 0
    assert "4 images" in capsys.readouterr().out


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


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="glibc only")
def test_indexing_reuses_freed_memory(tmp_path):
    """A freed block of 200 MB is allocated again without a page fault per page."""
    args = ["index", str(make_images(tmp_path / "photos", 2)), "--library", str(tmp_path / "l")]
    args += ["--model", make_model(tmp_path / "model")]

    def counted(*arguments):
        command = [sys.executable, "-c", FAULTS, *arguments]
        done = subprocess.run(command, capture_output=True, text=True, check=True)
        return int(done.stdout.split()[-1])

    assert counted() > 100 * max(counted(*args), 1)


def test_watch_ends_when_the_library_is_rebuilt(library, tmp_path, monkeypatch):
    def rebuild(_):
        Library.open_or_create(library.folder, rebuild=True).close()

    monkeypatch.setattr("time.sleep", rebuild)
    with pytest.raises(RebuiltError, match="rebuilt by another process"):
        watch(library, [tmp_path / "photos"], 1, lambda _: None, rounds=3)


def test_a_removed_library_is_detected(library):
    library.check_current()
    shutil.rmtree(library.folder)
    with pytest.raises(RebuiltError, match="was removed"):
        library.check_current()


def stored_texts(library):
    return {
        id_: metadata["text"]
        for records in library.texts.walk(100)
        for id_, metadata in zip(records.ids, records.metadata, strict=True)
    }


def test_changed_tables_are_encoded_again_even_after_an_interruption(
    library, tmp_path, monkeypatch
):
    table, updates = tmp_path / "t.csv", []
    table.write_text("text,note\n" + "".join(f"a dog {n},snow {n}\n" for n in range(300)))
    progress = Progress(enabled=False)
    monkeypatch.setattr(progress, "update", lambda *update: updates.append(update))
    assert index_table(library, table, progress=progress) == (300, 300)
    assert updates[0] == ("texts", 128, 300)
    assert index_table(library, table) == (300, 0)
    assert index_table(library, table, "note") == (300, 300)
    assert stored_texts(library)[f"{table}#7"] == "snow 7"
    table.write_text("text,note\n" + "".join(f"a dog {n},snow {n}\n" for n in range(400)))
    monkeypatch.setattr(library.catalog, "put_table", interrupted_at_second_call(library.catalog))
    with pytest.raises(KeyboardInterrupt):
        index_table(library, table)
    monkeypatch.undo()
    table.write_text("text,note\na dog,snow\n")
    assert index_table(library, table) == (1, 1)  # the column of the last run
    assert stored_texts(library) == {f"{table}#0": "snow"}


def interrupted_at_second_call(catalog):
    first, put = iter([True]), catalog.put_table

    def put_once(table):
        if not next(first, False):
            raise KeyboardInterrupt
        put(table)

    return put_once
