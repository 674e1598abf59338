"""Bringing a library up to date: what is read, encoded, moved and forgotten."""

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
from library.making import make_model, make_picture, make_pictures
from PIL import Image
from tiny_networks import cut_lite0, over_bert, save_bert

from diverset import Model
from diverset.cli import main
from diverset.errors import DataError, IndexFileError, OptionError, RebuiltError
from diverset.library.catalog import INDEXED
from diverset.library.indexing import index_folders
from diverset.library.library import Library
from diverset.search.drawing import draw_explanation
from diverset.search.searcher import Searcher


@pytest.fixture
def photos(tmp_path):
    return make_pictures(tmp_path / "photos", 6)


@pytest.fixture
def library(tmp_path):
    with Library.prepare(tmp_path / "library", make_model(tmp_path / "model")) as opened:
        yield opened


def sets_of(library):
    return {
        one: stored
        for part in library.pictures.walk(100)
        for one, stored in zip(part.ids, part.sets, strict=True)
    }


def again(library):
    """The same library as another process would open it."""
    return Library.prepare(library.folder)


def test_a_second_run_encodes_nothing_and_needs_no_model(library, photos):
    first = index_folders(library, [photos])
    assert (first.total, first.encoded, library.pictures.count()) == (6, 6, 6)
    with again(library) as later:
        second = index_folders(later, [photos])
        assert (second.encoded, second.unchanged) == (0, 6)
        assert "encoder" not in vars(later) and "model" not in vars(later)
    [hit, *_] = library.pictures.search(sets_of(library)[str(photos / "3.png")][None], k=1)[0]
    assert hit.id == str(photos / "3.png")
    assert hit.metadata["width"] == 40 and hit.metadata["name"] == "3.png"
    assert hit.metadata["folder"] == str(photos) and hit.metadata["bytes"] > 0


def test_a_model_whose_upper_blocks_were_trained(tmp_path, photos):
    network = over_bert(
        save_bert(tmp_path / "bert"), cut_lite0(), trained_blocks=2, cache_below=True
    )
    model = Model(network).eval()
    model.save_pretrained(tmp_path / "model")
    with Library.prepare(tmp_path / "library", str(tmp_path / "model")) as library:
        library.encoder.precision = "float32"
        index_folders(library, [photos])
        found = sets_of(library)
        files = sorted(found)
        wanted = model.encode_images(files).numpy()
        np.testing.assert_allclose(np.stack([found[one] for one in files]), wanted, atol=1e-4)
        drawn = draw_explanation(Searcher(library), "a dog", files[0])
        assert drawn.shares.sum() == pytest.approx(1)


def test_changes_moves_copies_and_deletions(library, photos):
    index_folders(library, [photos])
    before = sets_of(library)
    (photos / "new").mkdir()
    (photos / "0.png").rename(photos / "new" / "renamed.png")
    (photos / "1.png").unlink()
    make_picture(photos / "2.png", seed=77)
    os.utime(photos / "3.png", (1, 1))
    (photos / "copy.png").write_bytes((photos / "4.png").read_bytes())
    found = index_folders(library, [photos])
    assert (found.encoded, found.reused, found.forgotten) == (1, 3, 2)
    after = sets_of(library)
    assert set(after) == {str(path) for path in photos.rglob("*.png")}
    same = ((photos / "new" / "renamed.png", "0"), (photos / "copy.png", "4"))
    for path, number in same:
        np.testing.assert_array_equal(after[str(path)], before[str(photos / f"{number}.png")])
    assert not np.array_equal(after[str(photos / "2.png")], before[str(photos / "2.png")])
    renamed = library.pictures.get([str(photos / "new" / "renamed.png")]).metadata[0]
    assert renamed["name"] == "renamed.png" and renamed["width"] == 40
    assert index_folders(library).unchanged == 6  # all folders that it knows


def test_two_files_that_change_names(library, photos):
    make_picture(photos / "0.png", seed=0, size=(50, 50))  # another size in bytes
    index_folders(library, [photos])
    before = sets_of(library)
    for old, new in (("0", "x"), ("1", "0"), ("x", "1")):
        (photos / f"{old}.png").rename(photos / f"{new}.png")
    index_folders(library, [photos])
    after = sets_of(library)
    for old, new in (("0", "1"), ("1", "0")):
        one, other = before[str(photos / f"{old}.png")], after[str(photos / f"{new}.png")]
        np.testing.assert_allclose(one, other, atol=1e-6)


def test_bad_files_are_skipped_named_and_tried_again_when_they_change(library, photos, monkeypatch):
    monkeypatch.setattr(Image, "MAX_IMAGE_PIXELS", 10_000)
    make_picture(photos / "bomb.png", 1, size=(200, 200))
    (photos / "broken.jpg").write_bytes(b"no picture")
    (photos / "cut.png").write_bytes((photos / "5.png").read_bytes()[:60])
    (photos / "empty.webp").write_bytes(b"")
    (photos / "notes.txt").write_text("not looked at")
    odd = os.fsencode(photos) + b"/odd\xff.png"
    with open(odd, "wb") as file:
        file.write((photos / "5.png").read_bytes())
    found = index_folders(library, [photos])
    names = {os.path.basename(path).encode("utf-8", "replace") for path in found.skipped}
    assert names == {b"bomb.png", b"broken.jpg", b"cut.png", b"empty.webp", b"odd?.png"}
    assert "too large" in found.skipped[str(photos / "bomb.png")]
    assert library.pictures.count() == 6
    assert index_folders(library, [photos]).encoded == 0
    make_picture(photos / "broken.jpg", 9)
    assert index_folders(library, [photos]).encoded == 1
    (photos / "broken.jpg").write_bytes(b"broken again")
    index_folders(library, [photos])
    assert str(photos / "broken.jpg") not in sets_of(library)


def test_hidden_folders_loops_and_the_library_itself(tmp_path):
    photos = make_pictures(tmp_path / "photos", 2)
    make_picture(photos / ".hidden" / "a.png", 3)
    make_picture(photos / "deep" / "b.png", 4)
    (photos / "deep" / "loop").symlink_to(photos)
    (photos / "dangling.png").symlink_to(photos / "nowhere.png")
    outside = make_picture(tmp_path / "outside" / "c.png", 5).parent
    (photos / "link").symlink_to(outside)
    model = make_model(tmp_path / "model")
    with Library.prepare(photos / "library", model) as library:
        make_picture(library.folder / "sheet.png", 6)
        found = index_folders(library, [photos])
        names = {os.path.relpath(path, photos) for path in sets_of(library)}
    assert names == {"0.png", "1.png", "deep/b.png", "link/c.png"}
    assert found.skipped == {str(photos / "dangling.png"): "is a link that leads nowhere now"}


def test_nothing_is_written_into_the_folders(library, photos):
    def state():
        return {str(one): (one.stat().st_mtime_ns, one.stat().st_size) for one in all_of(photos)}

    def all_of(folder):
        return [folder, *folder.rglob("*")]

    before = state()
    index_folders(library, [photos])
    assert state() == before


def test_a_disk_that_is_not_there_is_not_forgotten(library, photos, tmp_path):
    index_folders(library, [photos])
    make_pictures(tmp_path / "others", 7)
    photos.rename(tmp_path / "elsewhere")
    with pytest.raises(DataError, match="not plugged in"):
        index_folders(library, [photos])
    library.catalog.add_root(tmp_path / "others")
    found = index_folders(library)  # the other folders are looked at all the same
    assert (found.encoded, found.reused) == (1, 6) and "not plugged in" in found.skipped[
        str(photos)
    ]
    photos.mkdir()  # the empty place where a disk was
    found = index_folders(library)
    assert found.forgotten == 0 and "has no pictures any more" in found.skipped[str(photos)]
    assert library.pictures.count() == 13
    photos.rmdir()
    (tmp_path / "elsewhere").rename(photos)
    assert index_folders(library).unchanged == 13


def test_a_link_to_a_disk_that_is_not_there(library, photos, tmp_path):
    disk = make_pictures(tmp_path / "disk", 8)
    (photos / "disk").symlink_to(disk)
    index_folders(library, [photos])
    disk.rename(tmp_path / "away")
    found = index_folders(library, [photos])
    assert found.forgotten == 0 and "leads nowhere" in found.skipped[str(photos / "disk")]
    assert library.pictures.count() == 14


def test_what_failed_for_a_reason_that_passes_is_tried_again(library, photos, monkeypatch):
    index_folders(library, [photos])
    (photos / "0.png").rename(photos / "6.png")
    make_picture(photos / "1.png", seed=33)
    read = Path.read_bytes

    def failing(path):
        if path.name in ("1.png", "6.png"):
            raise OSError(5, "Input/output error")
        return read(path)

    monkeypatch.setattr(Path, "read_bytes", failing)
    found = index_folders(library, [photos])
    assert set(found.skipped) == {str(photos / "1.png"), str(photos / "6.png")}
    assert str(photos / "1.png") in sets_of(library)  # its old set is better than none
    monkeypatch.undo()
    found = index_folders(library, [photos])
    assert found.encoded == 2 and not found.skipped
    assert set(sets_of(library)) == {str(path) for path in photos.iterdir()}


def test_a_clock_that_was_wrong_by_thousands_of_years(library, photos):
    try:
        os.utime(photos / "0.png", ns=(0, 300_000_000_000 * 10**9))
    except OSError:
        pytest.skip("this file system has no such times")
    assert index_folders(library, [photos]).encoded == 6
    assert index_folders(library, [photos]).unchanged == 6


def test_a_kill_between_forgetting_here_and_there(library, photos, tmp_path, monkeypatch):
    index_folders(library, [photos])
    (photos / "0.png").rename(tmp_path / "0.png")
    monkeypatch.setattr(library.catalog, "forget", lambda _: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        index_folders(library, [photos])
    monkeypatch.undo()
    (tmp_path / "0.png").rename(photos / "0.png")
    assert index_folders(library, [photos]).encoded == 1
    assert library.pictures.count() == library.catalog.count(INDEXED) == 6


def test_a_picture_is_the_one_its_path_led_to(library, photos, tmp_path):
    index_folders(library, [photos])
    path, secret = photos / "0.png", make_picture(tmp_path / "secret.png", 50)
    assert library.indexed(path)
    path.unlink()
    path.symlink_to(secret)
    assert not library.indexed(path)
    assert not library.indexed(secret)


def test_forgetting_folders_files_and_tables(library, photos, tmp_path, capsys):
    table = tmp_path / "captions.csv"
    table.write_text("caption\na dog runs\nsnow\n")
    where = ["--library", str(library.folder)]
    library.close()
    assert main(["index", str(photos), str(table), *where]) == 0
    assert main(["index", "--forget", str(photos / "0.png"), str(table), *where]) == 0
    assert "1 files forgotten" in capsys.readouterr().out
    with Library.open(library.folder) as now:
        assert (now.pictures.count(), now.texts.count(), now.catalog.roots) == (5, 0, [photos])
    assert main(["index", "--forget", str(photos), *where]) == 0
    assert main(["index", "--forget", str(photos), *where]) == 2
    assert "is not in the library" in capsys.readouterr().err
    with Library.open(library.folder) as now:
        assert now.pictures.count() == 0 and now.catalog.roots == []
    assert len(list(photos.iterdir())) == 6


def test_cores_are_given_back(library, photos):
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    try:
        found = index_folders(library, [photos], workers=2, batch=1)
        assert found.encoded == 6 and torch.get_num_threads() == 2
    finally:
        torch.set_num_threads(before)


def test_orientation_and_date(library, tmp_path):
    exif = Image.Exif()
    exif[0x0112] = 6
    exif.get_ifd(0x8769)[0x9003] = "2021:07:04 12:30:00"
    make_picture(tmp_path / "photos" / "turned.jpg", 1, exif=exif)
    index_folders(library, [tmp_path / "photos"])
    [about] = library.pictures.get([str(tmp_path / "photos" / "turned.jpg")]).metadata
    assert (about["width"], about["height"]) == (30, 40)
    assert about["taken"] == "2021-07-04T12:30:00"
    assert library.pictures.count("taken >= '2021' and taken < '2022'") == 1


def test_heic_with_the_extra_and_without(library, tmp_path, monkeypatch):
    heif = pytest.importorskip("pillow_heif")
    picture = Image.open(make_picture(tmp_path / "a.png", 1, size=(64, 64)))
    (tmp_path / "photos").mkdir()
    heif.from_pillow(picture).save(tmp_path / "photos" / "a.heic")
    monkeypatch.setitem(sys.modules, "pillow_heif", None)
    found = index_folders(library, [tmp_path / "photos"])
    assert "diverset[heic]" in found.skipped[str(tmp_path / "photos" / "a.heic")]
    monkeypatch.undo()
    assert index_folders(library, [tmp_path / "photos"]).encoded == 1


def test_another_model_is_refused_or_starts_anew(library, photos, tmp_path):
    index_folders(library, [photos])
    other = make_model(tmp_path / "other", seed=5)
    with pytest.raises(OptionError, match="--rebuild"):
        Library.prepare(library.folder, other)
    with Library.prepare(library.folder, other, rebuild=True) as renewed:
        assert renewed.pictures.count() == 0
        assert index_folders(renewed).encoded == 6  # the folders are still known
    with pytest.raises(RebuiltError), library.working():  # it still has the old model
        pass
    with pytest.raises(IndexFileError, match="no library in"):
        Library.open(tmp_path / "nowhere")


def test_a_rebuild_waits_for_its_turn_and_needs_no_other_model(library, photos):
    index_folders(library, [photos])
    with library.working(), pytest.raises(IndexFileError, match="another process"):
        Library.prepare(library.folder, rebuild=True)
    assert library.pictures.count() == 6
    with Library.prepare(library.folder, rebuild=True) as renewed:
        assert index_folders(renewed).encoded == 6


def test_lost_sets_are_not_taken_for_indexed_ones(library, photos):
    index_folders(library, [photos])
    [folder] = library.folder.glob("pictures-*")
    library.close()
    shutil.rmtree(folder)
    with again(library) as later, pytest.raises(IndexFileError, match="--rebuild"):
        later.pictures  # noqa: B018


def test_a_library_that_can_only_be_read(library, photos, monkeypatch):
    index_folders(library, [photos])
    library.close()
    monkeypatch.setattr(os, "access", lambda *_: False)
    with Library.open(library.folder) as later:
        assert later.catalog.count(INDEXED) == later.pictures.count() == 6
        with pytest.raises(IndexFileError, match="readonly"):
            later.catalog.note("job", None)


def test_one_process_indexes_at_a_time(library):
    with library.working(), again(library) as other:
        with pytest.raises(IndexFileError, match="another process"), other.working():
            pass


def test_how_far_it_is_as_long_as_somebody_is_at_it(library, photos):
    seen = []
    with library.working():
        index_folders(library, [photos], lambda _: seen.append(library.job()), batch=2)
        assert library.job() is None
        library.catalog.note("job", {"done": 1, "total": 6, "rate": 1.0, "ended": False})
        assert library.job()["done"] == 1
    assert seen[0]["total"] == 6
    assert library.job() is None  # killed: the lock went with it


def test_a_kill_loses_a_batch_at_most(tmp_path):
    photos, model = make_pictures(tmp_path / "photos", 40), make_model(tmp_path / "model")
    folder = tmp_path / "library"
    given = ["index", str(photos), "--library", str(folder), "--model", model, "--batch", "1"]
    paths = os.pathsep.join(path for path in sys.path if path)
    command = [sys.executable, "-m", "diverset.cli", *given]
    child = subprocess.Popen(command, env={**os.environ, "PYTHONPATH": paths})
    while not (folder / "files.sqlite").exists() or _indexed(folder) < 5:
        assert child.poll() is None
        time.sleep(0.01)
    child.send_signal(signal.SIGKILL)
    child.wait()
    with Library.prepare(folder) as library:
        known, stored = _indexed(folder), library.pictures.count()
        assert 5 <= known <= stored <= known + 1
        found = index_folders(library, [photos])
        assert found.encoded == 40 - known
        assert library.pictures.verify() == []
        assert set(sets_of(library)) == {str(path) for path in photos.iterdir()}


def _indexed(folder) -> int:
    """Read beside the library: its maker may not have got as far as naming the model."""
    with closing(sqlite3.connect(folder / "files.sqlite", timeout=60)) as files:
        if not files.execute("SELECT 1 FROM sqlite_master WHERE name = 'files'").fetchone():
            return 0
        asked = "SELECT count(*) FROM files WHERE status = ?"
        return int(files.execute(asked, (INDEXED,)).fetchone()[0])
