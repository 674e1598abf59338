"""Bringing a library up to date: what is read, encoded, reused and removed."""

import os
import shutil
import signal
import sqlite3
import subprocess
import sys
import time
from contextlib import closing
from pathlib import Path

import numpy as np
import pytest
import torch
from photos.library_support import make_image, make_images, make_model
from PIL import Image
from raw_support import make_dng
from tiny_networks import over_bert, save_bert, split_lite0

from diverset import Model
from diverset.cli import main
from diverset.errors import DataError, IndexFileError, LockedError, OptionError, RebuiltError
from diverset.photos.library import reading
from diverset.photos.library.catalog import INDEXED
from diverset.photos.library.indexing import index_folders
from diverset.photos.library.library import Library
from diverset.photos.search.explanation import draw_explanation
from diverset.photos.search.searcher import Searcher
from diverset.runtime.progress import Progress


@pytest.fixture
def photos(tmp_path):
    return make_images(tmp_path / "photos", 6)


@pytest.fixture
def library(tmp_path):
    with Library.open_or_create(tmp_path / "library", make_model(tmp_path / "model")) as opened:
        yield opened


def stored_sets(library):
    return {
        path: elements
        for records in library.images.walk(100)
        for path, elements in zip(records.ids, records.sets, strict=True)
    }


def reopened(library):
    """The same library as another process would open it."""
    return Library.open_or_create(library.folder)


def test_a_second_run_encodes_nothing_and_needs_no_model(library, photos):
    first = index_folders(library, [photos])
    assert (first.total, first.encoded, library.images.count()) == (6, 6, 6)
    with reopened(library) as later:
        second = index_folders(later, [photos])
        assert (second.encoded, second.unchanged) == (0, 6)
        assert "encoder" not in vars(later) and "model" not in vars(later)
    [hit, *_] = library.images.search(stored_sets(library)[str(photos / "3.png")][None], k=1)[0]
    assert hit.id == str(photos / "3.png")
    assert hit.metadata["width"] == 40 and hit.metadata["name"] == "3.png"
    assert hit.metadata["folder"] == str(photos) and hit.metadata["bytes"] > 0


def test_a_model_with_trained_backbone_blocks_can_be_indexed_and_explained(tmp_path, photos):
    network = over_bert(
        save_bert(tmp_path / "bert"), split_lite0(), trainable_blocks=2, cache_frozen_features=True
    )
    model = Model(network).eval()
    model.save_pretrained(tmp_path / "model")
    with Library.open_or_create(tmp_path / "library", str(tmp_path / "model")) as library:
        library.encoder.precision = "float32"
        index_folders(library, [photos])
        sets = stored_sets(library)
        files = sorted(sets)
        expected = model.encode_images(files).numpy()
        np.testing.assert_allclose(np.stack([sets[file] for file in files]), expected, atol=1e-4)
        explanation, _ = draw_explanation(Searcher(library), "a dog", files[0])
        assert explanation.shares.sum() == pytest.approx(1)


def test_changed_files_are_encoded_and_moved_or_copied_files_keep_their_sets(library, photos):
    index_folders(library, [photos])
    before = stored_sets(library)
    (photos / "new").mkdir()
    (photos / "0.png").rename(photos / "new" / "renamed.png")
    (photos / "1.png").unlink()
    make_image(photos / "2.png", seed=77)
    os.utime(photos / "3.png", (1, 1))
    (photos / "copy.png").write_bytes((photos / "4.png").read_bytes())
    result = index_folders(library, [photos])
    assert (result.encoded, result.reused, result.removed) == (1, 3, 2)
    after = stored_sets(library)
    assert set(after) == {str(path) for path in photos.rglob("*.png")}
    same = ((photos / "new" / "renamed.png", "0"), (photos / "copy.png", "4"))
    for path, number in same:
        np.testing.assert_array_equal(after[str(path)], before[str(photos / f"{number}.png")])
    assert not np.array_equal(after[str(photos / "2.png")], before[str(photos / "2.png")])
    renamed = library.images.get([str(photos / "new" / "renamed.png")]).metadata[0]
    assert renamed["name"] == "renamed.png" and renamed["width"] == 40
    assert index_folders(library).unchanged == 6  # all folders that it knows


def test_two_files_that_swap_names_swap_their_sets(library, photos):
    make_image(photos / "0.png", seed=0, size=(50, 50))  # another size in bytes
    index_folders(library, [photos])
    before = stored_sets(library)
    for old, new in (("0", "x"), ("1", "0"), ("x", "1")):
        (photos / f"{old}.png").rename(photos / f"{new}.png")
    index_folders(library, [photos])
    after = stored_sets(library)
    for old, new in (("0", "1"), ("1", "0")):
        first, second = before[str(photos / f"{old}.png")], after[str(photos / f"{new}.png")]
        np.testing.assert_allclose(first, second, atol=1e-6)


def test_unreadable_files_are_skipped_with_a_reason_and_read_again_when_they_change(
    library, photos, monkeypatch
):
    monkeypatch.setattr(Image, "MAX_IMAGE_PIXELS", 10_000)
    make_image(photos / "bomb.png", 1, size=(200, 200))
    (photos / "broken.jpg").write_bytes(b"not an image")
    (photos / "cut.png").write_bytes((photos / "5.png").read_bytes()[:60])
    (photos / "empty.webp").write_bytes(b"")
    (photos / "notes.txt").write_text("ignored")
    odd = os.fsencode(photos) + b"/odd\xff.png"
    with open(odd, "wb") as file:
        file.write((photos / "5.png").read_bytes())
    result = index_folders(library, [photos])
    names = {os.path.basename(path).encode("utf-8", "replace") for path in result.skipped}
    assert names == {b"bomb.png", b"broken.jpg", b"cut.png", b"empty.webp", b"odd?.png"}
    assert "too large" in result.skipped[str(photos / "bomb.png")]
    assert library.images.count() == 6
    assert index_folders(library, [photos]).encoded == 0
    make_image(photos / "broken.jpg", 9)
    assert index_folders(library, [photos]).encoded == 1
    (photos / "broken.jpg").write_bytes(b"broken again")
    index_folders(library, [photos])
    assert str(photos / "broken.jpg") not in stored_sets(library)


def test_hidden_folders_circular_links_and_the_library_itself_are_not_indexed(tmp_path):
    photos = make_images(tmp_path / "photos", 2)
    make_image(photos / ".hidden" / "a.png", 3)
    make_image(photos / "deep" / "b.png", 4)
    (photos / "deep" / "loop").symlink_to(photos)
    (photos / "dangling.png").symlink_to(photos / "nowhere.png")
    outside = make_image(tmp_path / "outside" / "c.png", 5).parent
    (photos / "link").symlink_to(outside)
    model = make_model(tmp_path / "model")
    with Library.open_or_create(photos / "library", model) as library:
        make_image(library.folder / "sheet.png", 6)
        result = index_folders(library, [photos])
        names = {os.path.relpath(path, photos) for path in stored_sets(library)}
    assert names == {"0.png", "1.png", "deep/b.png", "link/c.png"}
    assert result.skipped == {str(photos / "dangling.png"): "broken link"}


def test_nothing_is_written_into_the_indexed_folders(library, photos):
    def state():
        paths = [photos, *photos.rglob("*")]
        return {path: (path.stat().st_mtime_ns, path.stat().st_size) for path in paths}

    before = state()
    index_folders(library, [photos])
    assert state() == before


def test_images_of_a_missing_or_empty_folder_stay_in_the_library(library, photos, tmp_path):
    index_folders(library, [photos])
    make_images(tmp_path / "others", 7)
    photos.rename(tmp_path / "elsewhere")
    with pytest.raises(DataError, match="not connected"):
        index_folders(library, [photos])
    library.catalog.add_root(tmp_path / "others")
    result = index_folders(library)  # the other folders are indexed all the same
    assert (result.encoded, result.reused) == (1, 6) and "not connected" in result.skipped[
        str(photos)
    ]
    photos.mkdir()  # the empty mount point of a disk
    result = index_folders(library)
    assert result.removed == 0 and "has no images any more" in result.skipped[str(photos)]
    assert library.images.count() == 13
    photos.rmdir()
    (tmp_path / "elsewhere").rename(photos)
    assert index_folders(library).unchanged == 13


def test_images_behind_a_broken_link_stay_in_the_library(library, photos, tmp_path):
    disk = make_images(tmp_path / "disk", 8)
    (photos / "disk").symlink_to(disk)
    index_folders(library, [photos])
    disk.rename(tmp_path / "away")
    result = index_folders(library, [photos])
    assert result.removed == 0 and "broken link" in result.skipped[str(photos / "disk")]
    assert library.images.count() == 14


@pytest.mark.parametrize(
    "error", [OSError(5, "Input/output error"), MemoryError(), ValueError("a bug in a decoder")]
)
def test_a_transient_error_keeps_the_stored_set_and_is_retried(library, photos, monkeypatch, error):
    index_folders(library, [photos])
    (photos / "0.png").rename(photos / "6.png")
    make_image(photos / "1.png", seed=33)
    read = reading.read_file

    def failing(path, max_bytes):
        if Path(path).name in ("1.png", "6.png"):
            raise error
        return read(path, max_bytes)

    monkeypatch.setattr(reading, "read_file", failing)
    result = index_folders(library, [photos])
    assert set(result.skipped) == {str(photos / "1.png"), str(photos / "6.png")}
    assert str(photos / "1.png") in stored_sets(library)  # the old set is better than none
    monkeypatch.undo()
    result = index_folders(library, [photos])
    assert result.encoded == 2 and not result.skipped
    assert set(stored_sets(library)) == {str(path) for path in photos.iterdir()}


def test_file_times_thousands_of_years_ahead_are_accepted(library, photos):
    try:
        os.utime(photos / "0.png", ns=(0, 300_000_000_000 * 10**9))
    except OSError:
        pytest.skip("this file system has no such times")
    assert index_folders(library, [photos]).encoded == 6
    assert index_folders(library, [photos]).unchanged == 6


def test_a_kill_while_files_are_removed_leaves_catalog_and_index_consistent(
    library, photos, tmp_path, monkeypatch
):
    index_folders(library, [photos])
    (photos / "0.png").rename(tmp_path / "0.png")
    monkeypatch.setattr(library.catalog, "remove_files", lambda _: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        index_folders(library, [photos])
    monkeypatch.undo()
    (tmp_path / "0.png").rename(photos / "0.png")
    assert index_folders(library, [photos]).encoded == 1
    assert library.images.count() == library.catalog.count(INDEXED) == 6


def test_a_path_that_became_a_link_to_another_file_is_not_indexed(library, photos, tmp_path):
    index_folders(library, [photos])
    path, secret = photos / "0.png", make_image(tmp_path / "secret.png", 50)
    assert library.indexed_file(path)
    path.unlink()
    path.symlink_to(secret)
    assert not library.indexed_file(path)
    assert not library.indexed_file(secret)


def test_folders_files_and_tables_can_be_removed_from_the_library(
    library, photos, tmp_path, capsys
):
    table = tmp_path / "captions.csv"
    table.write_text("caption\na dog runs\nsnow\n")
    where = ["--library", str(library.folder)]
    library.close()
    assert main(["index", str(photos), str(table), *where]) == 0
    assert main(["index", "--forget", str(photos / "0.png"), str(table), *where]) == 0
    assert "1 files removed from the library" in capsys.readouterr().out
    with Library.open(library.folder) as now:
        assert (now.images.count(), now.texts.count(), now.catalog.roots) == (5, 0, [photos])
    assert main(["index", "--forget", str(photos), *where]) == 0
    assert main(["index", "--forget", str(photos), *where]) == 2
    assert "is not in the library" in capsys.readouterr().err
    with Library.open(library.folder) as now:
        assert now.images.count() == 0 and now.catalog.roots == []
    assert len(list(photos.iterdir())) == 6


def test_the_number_of_torch_threads_is_restored_after_indexing(library, photos):
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    try:
        result = index_folders(library, [photos], workers=2, batch=1)
        assert result.encoded == 6 and torch.get_num_threads() == 2
    finally:
        torch.set_num_threads(before)


def test_size_and_date_of_a_rotated_photo_are_stored(library, tmp_path):
    exif = Image.Exif()
    exif[0x0112] = 6
    exif.get_ifd(0x8769)[0x9003] = "2021:07:04 12:30:00"
    make_image(tmp_path / "photos" / "turned.jpg", 1, exif=exif)
    index_folders(library, [tmp_path / "photos"])
    [about] = library.images.get([str(tmp_path / "photos" / "turned.jpg")]).metadata
    assert (about["width"], about["height"]) == (30, 40)
    assert about["taken"] == "2021-07-04T12:30:00"
    assert library.images.count("taken >= '2021' and taken < '2022'") == 1


def test_heic_files_need_the_extra_and_are_indexed_with_it(library, tmp_path, monkeypatch):
    heif = pytest.importorskip("pillow_heif")
    image = Image.open(make_image(tmp_path / "a.png", 1, size=(64, 64)))
    (tmp_path / "photos").mkdir()
    heif.from_pillow(image).save(tmp_path / "photos" / "a.heic")
    monkeypatch.setitem(sys.modules, "pillow_heif", None)
    result = index_folders(library, [tmp_path / "photos"])
    assert "diverset[heic]" in result.skipped[str(tmp_path / "photos" / "a.heic")]
    monkeypatch.undo()
    assert index_folders(library, [tmp_path / "photos"]).encoded == 1


def test_another_model_needs_a_rebuild(library, photos, tmp_path):
    index_folders(library, [photos])
    other = make_model(tmp_path / "other", seed=5)
    with pytest.raises(OptionError, match="--rebuild"):
        Library.open_or_create(library.folder, other)
    with Library.open_or_create(library.folder, other, rebuild=True) as renewed:
        assert renewed.images.count() == 0
        assert index_folders(renewed).encoded == 6  # the folders are still known
    with pytest.raises(RebuiltError), library.indexing_lock():  # it still has the old model
        pass
    with pytest.raises(IndexFileError, match="no library in"):
        Library.open(tmp_path / "nowhere")


def test_a_rebuild_needs_the_lock_and_works_with_the_same_model(library, photos):
    index_folders(library, [photos])
    with library.indexing_lock(), pytest.raises(LockedError, match="another process"):
        Library.open_or_create(library.folder, rebuild=True)
    assert library.images.count() == 6
    with Library.open_or_create(library.folder, rebuild=True) as renewed:
        assert index_folders(renewed).encoded == 6


def test_a_missing_index_folder_is_an_error(library, photos):
    index_folders(library, [photos])
    [folder] = library.folder.glob("images-*")
    library.close()
    shutil.rmtree(folder)
    with reopened(library) as later, pytest.raises(IndexFileError, match="index --all"):
        later.images  # noqa: B018


def test_a_read_only_library_can_be_opened(library, photos, monkeypatch):
    index_folders(library, [photos])
    library.close()
    monkeypatch.setattr(os, "access", lambda *_: False)
    with Library.open(library.folder) as later:
        assert later.catalog.count(INDEXED) == later.images.count() == 6
        with pytest.raises(IndexFileError, match="readonly"):
            later.catalog.set_info("indexing", None)


def test_only_one_process_indexes_at_a_time(library):
    with library.indexing_lock(), reopened(library) as other:
        with pytest.raises(LockedError, match="another process"), other.indexing_lock():
            pass


def test_progress_is_reported_only_while_a_process_is_indexing(library, photos, monkeypatch):
    seen, progress = [], Progress(enabled=False)
    monkeypatch.setattr(progress, "update", lambda *_: seen.append(library.indexing_progress()))
    with library.indexing_lock():
        index_folders(library, [photos], progress, batch=2)
        assert library.indexing_progress() is None
        library.catalog.set_info(
            "indexing", {"done": 1, "total": 6, "rate": 1.0, "finished": False}
        )
        assert library.indexing_progress()["done"] == 1
    assert seen[0]["total"] == 6
    assert library.indexing_progress() is None  # killed: the lock went with it


def test_a_kill_loses_at_most_one_batch(tmp_path):
    photos, model = make_images(tmp_path / "photos", 40), make_model(tmp_path / "model")
    folder = tmp_path / "library"
    args = ["index", str(photos), "--library", str(folder), "--model", model, "--batch", "1"]
    paths = os.pathsep.join(path for path in sys.path if path)
    command = [sys.executable, "-m", "diverset", *args]
    child = subprocess.Popen(command, env={**os.environ, "PYTHONPATH": paths})
    while not (folder / "files.sqlite").exists() or _indexed(folder) < 5:
        assert child.poll() is None
        time.sleep(0.01)
    child.send_signal(signal.SIGKILL)
    child.wait()
    with Library.open_or_create(folder) as library:
        known, stored = _indexed(folder), library.images.count()
        assert 5 <= known <= stored <= known + 1
        result = index_folders(library, [photos])
        assert result.encoded == 40 - known
        assert library.images.verify() == []
        assert set(stored_sets(library)) == {str(path) for path in photos.iterdir()}


def _indexed(folder) -> int:
    """Read with SQLite: the process may not have stored the model yet."""
    with closing(sqlite3.connect(folder / "files.sqlite", timeout=60)) as files:
        if not files.execute("SELECT 1 FROM sqlite_master WHERE name = 'files'").fetchone():
            return 0
        query = "SELECT count(*) FROM files WHERE status = ?"
        return int(files.execute(query, (INDEXED,)).fetchone()[0])


def test_a_library_of_an_older_version_is_rejected_with_a_clear_error(tmp_path):
    with closing(sqlite3.connect(tmp_path / "files.sqlite")) as files:
        files.execute("CREATE TABLE about (key TEXT PRIMARY KEY, value TEXT NOT NULL)")
    with pytest.raises(IndexFileError, match="another version of diverset"):
        Library.open(tmp_path)


def test_raw_and_avif_files_are_indexed_with_their_metadata(tmp_path, library):
    pytest.importorskip("rawpy")
    photos = make_images(tmp_path / "photos", 1)
    (photos / "IMG_1.DNG").write_bytes(make_dng(orientation=6))
    make_image(photos / "b.avif", 5)
    result = index_folders(library, [photos])
    assert (result.encoded, result.skipped) == (3, {})
    [raw] = library.images.get([str(photos / "IMG_1.DNG")]).metadata
    assert (raw["width"], raw["height"], raw["taken"]) == (600, 800, "2021-07-04T12:30:00")
    [avif] = library.images.get([str(photos / "b.avif")]).metadata
    assert (avif["width"], avif["height"]) == (40, 30)


def test_other_files_are_counted_by_kind(tmp_path, library):
    photos = make_images(tmp_path / "photos", 1)
    for name in ("a.MOV", "b.mov", "sub/c.svg", "README", ".hidden.txt"):
        (photos / name).parent.mkdir(exist_ok=True)
        (photos / name).write_bytes(b"x")
    other = make_images(tmp_path / "other", 1)
    (other / "d.svg").write_bytes(b"x")
    result = index_folders(library, [photos])
    assert result.ignored == {".mov": 2, ".svg": 1, "without a suffix": 1}
    assert index_folders(library, [other]).ignored == {".svg": 1}
    kinds = library.catalog.info["ignored"]
    assert {root: sum(count.values()) for root, count in kinds.items()} == {
        str(photos): 4,
        str(other): 1,
    }
    (photos / "a.MOV").unlink()
    assert index_folders(library).ignored[".mov"] == 1


def test_the_home_folder_is_expanded(tmp_path, library, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path))
    make_images(tmp_path / "Pictures", 2)
    assert index_folders(library, ["~/Pictures"]).encoded == 2
    assert library.catalog.roots == [tmp_path / "Pictures"]
