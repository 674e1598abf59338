"""Bad input and bad files: each is refused with a typed error that names the value."""

import itertools
import os
import signal
import sqlite3
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import pytest
import torch
from index.making import SETTINGS, make_index, make_sets

from diverset.errors import IndexFileError, InputError, OptionError, ShapeError
from diverset.index import SetIndex, Settings, segments, truth, upkeep
from diverset.index.truth import FILE, holds_index


def spoiled(value: float) -> np.ndarray:
    sets = make_sets(3)
    sets[1, 2] *= value
    return sets


@pytest.mark.parametrize(
    ("sets", "error", "words"),
    [
        (make_sets(3, slots=2), ShapeError, "2 elements.*3"),
        (make_sets(3, dim=8), ShapeError, "8 wide.*16"),
        (make_sets(3)[0], ShapeError, r"\(3, 16\)"),
        (make_sets(2), ShapeError, "3 ids.*2 sets"),
        (np.ones((3, 3, 16), dtype=np.int64), InputError, "int64"),
        (spoiled(np.nan), InputError, r"element 2 of sets\[1\] has norm nan"),
        (spoiled(0.0), InputError, "norm 0, not 1"),
        (spoiled(1.1), InputError, "norm 1.1, not 1"),
    ],
)
def test_sets_that_do_not_fit(tmp_path, sets, error, words):
    with make_index(tmp_path) as index:
        with pytest.raises(error, match=words):
            index.add(["a", "b", "c"], sets)
        assert index.count() == 0


@pytest.mark.parametrize(
    ("ids", "words"),
    [
        (["a", "b", "a"], "'a' stands twice"),
        (["a", "", "c"], "cannot be stored"),
        (["a", 1, "c"], "id 1"),
        ("abc", "one string"),
        (["a", "b\0", "c"], "NUL"),
    ],
)
def test_ids_that_do_not_fit(tmp_path, ids, words):
    with make_index(tmp_path) as index:
        with pytest.raises(InputError, match=words):
            index.add(ids, make_sets(3))
        assert index.count() == 0


def test_queries_that_do_not_fit(tmp_path):
    with make_index(tmp_path, 3) as index:
        assert len(index.search(make_sets(1), k=np.int64(2))[0]) == 2
        for k in (0, -1, 2.5, True):
            with pytest.raises(OptionError, match="k is"):
                index.search(make_sets(1), k=k)
        with pytest.raises(ShapeError, match="8 wide"):
            index.search(make_sets(1, dim=8))
        with pytest.raises(InputError, match="norm nan"):
            index.search(spoiled(np.nan))
        with pytest.raises(OptionError, match="size is 0"):
            next(index.walk(0))


def test_a_foreign_model_is_refused_by_name(tmp_path):
    make_index(tmp_path).close()
    with pytest.raises(IndexFileError, match="model model-a, not of model-b"):
        SetIndex.open(tmp_path / "index", model="model-b")


def test_no_index_or_already_one(tmp_path):
    with pytest.raises(IndexFileError, match="holds no index"):
        SetIndex.open(tmp_path / "nowhere")
    make_index(tmp_path).close()
    with pytest.raises(IndexFileError, match="already holds"):
        make_index(tmp_path)
    (tmp_path / "file").write_text("x")
    with pytest.raises(IndexFileError, match="exists"):
        SetIndex.create(tmp_path / "file", SETTINGS)


@pytest.mark.parametrize("said", ["SetIndex.create", "add-shards", "copy"])
def test_a_missing_index_says_how_to_make_one(tmp_path, said):
    with pytest.raises(IndexFileError, match=said):
        SetIndex.open(tmp_path)


def test_what_a_killed_create_leaves_is_no_index(tmp_path):
    folder = tmp_path / "index"
    folder.mkdir()
    (folder / FILE).touch()
    assert not holds_index(folder)
    with pytest.raises(IndexFileError, match="holds no index"):
        SetIndex.open(folder)
    make_index(tmp_path, 3).close()
    assert holds_index(folder)
    with pytest.raises(IndexFileError, match="already holds"):
        make_index(tmp_path)
    (folder / FILE).write_text("something else" * 1000)
    assert holds_index(folder)


@pytest.mark.parametrize("step", [1, 2, 3, 4, 6, 11, 16, 19, 20, 21])
def test_create_is_all_or_nothing(tmp_path, step):
    """Killed before any of its statements, it leaves an index or room for one."""
    folder = tmp_path / "index"
    child = os.fork()
    if child == 0:
        _create_and_be_killed(folder, step)
    os.waitpid(child, 0)
    if not holds_index(folder):
        SetIndex.create(folder, SETTINGS).close()
    with SetIndex.open(folder) as index:
        index.add(["a"], make_sets(1))
        assert index.verify() == []


def _create_and_be_killed(folder: Path, step: int) -> None:
    left = itertools.count(step - 1, -1)
    opened = truth.open_file

    def count_down(*_: object) -> None:
        if next(left) == 0:
            os.kill(os.getpid(), signal.SIGKILL)

    def traced(*given: object) -> sqlite3.Connection:
        connection = opened(*given)
        count_down()
        connection.set_trace_callback(count_down)
        return connection

    truth.open_file = traced
    try:
        SetIndex.create(folder, SETTINGS)
    finally:
        os.kill(os.getpid(), signal.SIGKILL)


@pytest.mark.parametrize(
    "wrong",
    [{"alpha": 1e-3}, {"alpha": 1e5}, {"alpha": float("inf")}, {"alpha": float("nan")},
     {"alpha": "16"}, {"slots": 4.5}, {"slots": True}, {"dim": 0}],
)  # fmt: skip
def test_settings_that_cannot_be_searched(wrong):
    with pytest.raises(OptionError, match=f"{next(iter(wrong))} is"):
        Settings(**{"model": "m", "slots": 3, "dim": 16, **wrong})


def test_settings_may_come_from_numpy(tmp_path):
    settings = Settings("m", np.int64(3), np.int32(16), alpha=np.float32(16))
    SetIndex.create(tmp_path / "index", settings).close()
    with SetIndex.open(tmp_path / "index") as index:
        assert index.settings == settings == Settings("m", 3, 16)


def test_a_closed_index_is_not_called_damaged(tmp_path):
    with make_index(tmp_path, 3) as index:
        pass
    with pytest.raises(IndexFileError, match="closed.*open the index again"):
        index.count()


def test_a_newer_format_is_refused(tmp_path):
    make_index(tmp_path).close()
    with sqlite3.connect(tmp_path / "index" / FILE) as connection:
        connection.execute("UPDATE about SET value = '2' WHERE key = 'format'")
    connection.close()
    with pytest.raises(IndexFileError, match="format 2, this diverset reads 1"):
        SetIndex.open(tmp_path / "index")


@pytest.mark.parametrize("kept", [50, 5000, 30000])
def test_a_truncated_truth_is_noticed(tmp_path, kept):
    make_index(tmp_path, 200).close()
    file = tmp_path / "index" / FILE
    assert file.stat().st_size > 30000
    os.truncate(file, kept)
    with pytest.raises(IndexFileError, match="restore it from a copy"):
        with SetIndex.open(tmp_path / "index") as index:
            assert index.verify() == []
            index.search(make_sets(1))


@pytest.mark.parametrize("harm", ["truncate", "delete", "foreign", "empty"])
def test_a_damaged_scan_file_is_made_again(tmp_path, monkeypatch, harm):
    monkeypatch.setattr(upkeep, "TAIL", 30)
    with make_index(tmp_path, 100) as index:
        index.delete(["id7"])
        expected = [hit.id for hit in index.search(make_sets(1, seed=5))[0]]
    (file,) = (tmp_path / "index").glob("*.codes")
    if harm == "truncate":
        os.truncate(file, file.stat().st_size - 10)
    elif harm == "delete":
        file.unlink()
    elif harm == "foreign":
        monkeypatch.setattr(segments, "FORMAT", "2")
    else:
        os.truncate(file, 0)
    with SetIndex.open(tmp_path / "index") as index:
        (said,) = index.verify()
        assert "missing or damaged" in said
        assert [hit.id for hit in index.search(make_sets(1, seed=5))[0]] == expected
        assert index.verify() == []
        assert [hit.id for hit in index.search(make_sets(1, seed=5))[0]] == expected


def test_rows_outside_of_all_files_are_found(tmp_path, monkeypatch):
    monkeypatch.setattr(upkeep, "TAIL", 10)
    with make_index(tmp_path) as index:
        for n in range(4):
            index.add([f"{n}-{i}" for i in range(10)], make_sets(10, seed=n))
        lost = upkeep.listed(index._truth)[1]
        with index._truth.writing() as connection:
            connection.execute("DELETE FROM segments WHERE first = ?", (lost.first,))
        (said,) = index.verify()
        assert said == "rows 11, 12, 13 and 7 more are in no scan file; compact the index"
        index.compact()
        assert index.verify() == []
        assert len(index.search(make_sets(1), k=100)[0]) == 40


def test_rows_that_only_a_file_has_or_lacks_are_found(tmp_path, monkeypatch):
    monkeypatch.setattr(upkeep, "TAIL", 30)
    with make_index(tmp_path, 40) as index:
        index.delete(["id3"])
        assert index.verify() == []
        with index._truth.writing() as connection:
            connection.execute("DELETE FROM removed")
        (said,) = index.verify()
        assert "rows 4 are no longer in the index; delete the file" in said
        (segment,) = upkeep.listed(index._truth)
        codes = segments.read(index.folder, segment, SETTINGS).take(torch.arange(39))
        part = segments.write(index.folder, codes, SETTINGS, segment.first, segment.last)
        with index._truth.writing() as connection:
            connection.execute("UPDATE segments SET file = ?, items = 39", (part.file,))
        assert any("rows 40 are missing" in said for said in index.verify())
        (index.folder / part.file).unlink()
        assert len(index.search(make_sets(1), k=100)[0]) == 39
        assert index.verify() == []


def test_a_search_does_not_wait_for_a_writer_to_mend(tmp_path, monkeypatch):
    monkeypatch.setattr(upkeep, "TAIL", 30)
    with make_index(tmp_path, 40) as writer, SetIndex.open(writer.folder) as reader:
        for file in writer.folder.glob("*.codes"):
            file.unlink()
        with writer._truth.writing():
            began = time.monotonic()
            assert len(reader.search(make_sets(1))[0]) == 10
            assert time.monotonic() - began < 20  # of the 60 that a writer waits
        writer.compact()
        changes = writer._truth.changes()
        upkeep.mend(writer._truth, [segments.Segment(0, 40, 40, "forgotten.codes")])
        assert writer._truth.changes() == changes


def test_opening_does_not_wait_for_a_writer(tmp_path):
    with make_index(tmp_path, 3) as writer, writer._truth.writing():
        began = time.monotonic()
        with SetIndex.open(writer.folder) as reader:
            assert reader.count() == 3
        assert time.monotonic() - began < 20  # of the 60 that a writer waits


def test_wrong_bounds_and_bad_sets_are_found(tmp_path, monkeypatch):
    monkeypatch.setattr(upkeep, "TAIL", 30)
    with make_index(tmp_path, 100) as index:
        (segment,) = upkeep.listed(index._truth)
        codes = segments.read(index.folder, segment, SETTINGS)
        codes.error.mul_(0.5)
        bad = segments.write(index.folder, codes, SETTINGS, segment.first, segment.last)
        os.replace(index.folder / bad.file, index.folder / segment.file)
        assert "wrong sets or bounds" in index.verify()[0]
        blob = np.zeros((3, 16), dtype="<f4").tobytes()
        index._truth.connection.execute("UPDATE sets SET data = ? WHERE row = 3", (blob,))
        assert "unit length" in index.verify()[0]
        index._truth.connection.execute("DELETE FROM sets WHERE row = 4")
        assert "in items and not in sets" in index.verify()[0]


def test_a_full_disk_loses_nothing_and_says_so(tmp_path):
    with make_index(tmp_path, 20) as index:
        pages = index._truth.connection.execute("PRAGMA page_count").fetchone()[0]
        index._truth.connection.execute(f"PRAGMA max_page_count = {pages + 2}")
        with pytest.raises(IndexFileError, match="full; nothing of this call was stored"):
            index.add([f"new{n}" for n in range(500)], make_sets(500))
        assert index.count() == 20
        assert index.verify() == []
        index._truth.connection.execute("PRAGMA max_page_count = 1000000")
        index.add([f"new{n}" for n in range(500)], make_sets(500))
        assert index.count() == 520


FULL = """
import resource, signal, sys
from pathlib import Path
from index.making import make_sets
from diverset.errors import IndexFileError
from diverset.index import SetIndex
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
with SetIndex.open(sys.argv[1]) as index:
    resource.setrlimit(resource.RLIMIT_FSIZE, (300_000, 300_000))
    try:
        for n in range(100):
            index.add([f"new{n}-{i}" for i in range(100)], make_sets(100))
            print(n, flush=True)
    except IndexFileError as error:
        print(error)
"""


def test_a_file_that_cannot_grow(tmp_path):
    """The same by the operating system, for all files: acknowledged items stay."""
    make_index(tmp_path, 20).close()
    folder = tmp_path / "index"
    done = run(FULL, folder)
    *added, error = done.stdout.splitlines()
    assert "free" in error
    with SetIndex.open(folder) as index:
        assert index.count() == 20 + 100 * len(added)
        assert index.verify() == []


READ_ONLY = """
import os, sys
from pathlib import Path
from index.making import make_sets
from diverset.errors import IndexFileError
from diverset.index import SetIndex
with SetIndex.open(sys.argv[1]) as index:
    index.search(make_sets(1))  # whatever is imported late, before rights are given up
if os.getuid() == 0:
    os.setuid(65534)
with SetIndex.open(sys.argv[1]) as index:
    print(index.search(make_sets(1))[0][0].id)
    try:
        index.add(["x"], make_sets(1))
    except IndexFileError as error:
        print(error)
    for line in sys.stdin:  # after whatever was written meanwhile
        found = {hit.id for hit in index.search(make_sets(1), k=5000)[0]}
        print(len(found), index.count(), index.verify(), flush=True)
"""


def test_a_read_only_folder_is_searched_and_not_written():
    with tempfile.TemporaryDirectory() as parent:  # pytest's own folders are closed to others
        os.chmod(parent, 0o755)
        with make_index(Path(parent), 20) as index:
            expected = index.search(make_sets(1))[0][0].id
        index.folder.chmod(0o555)
        found, error = run(READ_ONLY, index.folder).stdout.splitlines()
        index.folder.chmod(0o755)
    assert found == expected
    assert "can only be read" in error


@pytest.mark.skipif(os.getuid() != 0, reason="needs a folder that the reader may not write to")
def test_a_reader_without_rights_sees_what_others_write():
    with tempfile.TemporaryDirectory() as parent:
        os.chmod(parent, 0o755)
        make_index(Path(parent), 1000).close()
        folder = Path(parent) / "index"
        reader = subprocess.Popen(
            [sys.executable, "-c", READ_ONLY, str(folder)],
            env={**os.environ, "PYTHONPATH": PATHS},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        reader.stdout.readline()
        assert "can only be read" in reader.stdout.readline()

        def asked() -> str:
            reader.stdin.write("again\n")
            reader.stdin.flush()
            return reader.stdout.readline().strip()

        assert asked() == "1000 1000 []"
        for turn in (1, 2):  # the file alone; a writer beside it; the file alone
            with SetIndex.open(folder) as index:
                index.delete([f"id{n}" for n in range(300 * turn)])
                index.add([f"{turn}-{n}" for n in range(2000)], make_sets(2000, seed=turn))
                index.compact()
                expected = f"{index.count()} {index.count()} []"
                assert asked() == expected
            assert asked() == expected
        reader.communicate()
        assert reader.returncode == 0


PATHS = os.pathsep.join(path for path in sys.path if path)


def run(program: str, folder) -> subprocess.CompletedProcess:
    return subprocess.run(
        [sys.executable, "-c", program, str(folder)],
        env={**os.environ, "PYTHONPATH": PATHS},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=True,
    )
