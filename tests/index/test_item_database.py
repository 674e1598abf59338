"""Creating, opening and writing the database: crashes, damaged files, full disks, permissions."""

import itertools
import os
import signal
import sqlite3
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import pytest
from index.index_support import SETTINGS, make_index, make_sets

from diverset.errors import IndexFileError
from diverset.index import SetIndex, item_database
from diverset.index.item_database import FILE
from diverset.index.quick_checks import holds_index


def test_open_needs_an_index_and_create_needs_none(tmp_path):
    with pytest.raises(IndexFileError, match="holds no index"):
        SetIndex.open(tmp_path / "nowhere")
    make_index(tmp_path).close()
    with pytest.raises(IndexFileError, match="already holds"):
        make_index(tmp_path)
    (tmp_path / "file").write_text("x")
    with pytest.raises(IndexFileError, match="exists"):
        SetIndex.create(tmp_path / "file", SETTINGS)


@pytest.mark.parametrize("command", ["SetIndex.create", "load-shards", "copy"])
def test_the_error_for_a_missing_index_says_how_to_create_one(tmp_path, command):
    with pytest.raises(IndexFileError, match=command):
        SetIndex.open(tmp_path)


def test_an_unfinished_create_can_be_repeated(tmp_path):
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
def test_create_killed_at_any_statement_leaves_a_usable_folder(tmp_path, step):
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
    opened = item_database.open_file

    def count_down(*_: object) -> None:
        if next(left) == 0:
            os.kill(os.getpid(), signal.SIGKILL)

    def traced(*args: object) -> sqlite3.Connection:
        connection = opened(*args)
        count_down()
        connection.set_trace_callback(count_down)
        return connection

    item_database.open_file = traced
    try:
        SetIndex.create(folder, SETTINGS)
    finally:
        os.kill(os.getpid(), signal.SIGKILL)


def test_a_closed_index_asks_to_be_opened_again(tmp_path):
    with make_index(tmp_path, 3) as index:
        pass
    with pytest.raises(IndexFileError, match="closed.*open the index again"):
        index.count()


def test_a_newer_format_is_rejected(tmp_path):
    make_index(tmp_path).close()
    with sqlite3.connect(tmp_path / "index" / FILE) as connection:
        connection.execute("UPDATE properties SET value = '4' WHERE key = 'format'")
    connection.close()
    with pytest.raises(IndexFileError, match="format 4, this version of diverset reads format 3"):
        SetIndex.open(tmp_path / "index")


@pytest.mark.parametrize("size", [50, 5000, 30000])
def test_a_truncated_database_is_detected(tmp_path, size):
    make_index(tmp_path, 200).close()
    file = tmp_path / "index" / FILE
    assert file.stat().st_size > 30000
    os.truncate(file, size)
    with pytest.raises(IndexFileError, match="diverset store verify --repair"):
        with SetIndex.open(tmp_path / "index") as index:
            assert index.verify() == []
            index.search(make_sets(1))


def test_opening_does_not_wait_for_a_writer(tmp_path):
    with make_index(tmp_path, 3) as writer, writer._database.writing():
        began = time.monotonic()
        with SetIndex.open(writer.folder) as reader:
            assert reader.count() == 3
        assert time.monotonic() - began < 20  # of the 60 that a writer waits


def test_a_full_database_rejects_the_write_and_keeps_the_rest(tmp_path):
    with make_index(tmp_path, 20) as index:
        pages = index._database.connection.execute("PRAGMA page_count").fetchone()[0]
        index._database.connection.execute(f"PRAGMA max_page_count = {pages + 2}")
        with pytest.raises(IndexFileError, match="full; nothing of this call was stored"):
            index.add([f"new{n}" for n in range(500)], make_sets(500))
        assert index.count() == 20
        assert index.verify() == []
        index._database.connection.execute("PRAGMA max_page_count = 1000000")
        index.add([f"new{n}" for n in range(500)], make_sets(500))
        assert index.count() == 520


FULL = """
import resource, signal, sys
from pathlib import Path
from index.index_support import make_sets
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


def test_acknowledged_items_survive_a_full_disk(tmp_path):
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
from index.index_support import make_sets
from diverset.errors import IndexFileError
from diverset.index import SetIndex
with SetIndex.open(sys.argv[1]) as index:
    index.search(make_sets(1))  # imports everything before dropping privileges
if os.getuid() == 0:
    os.setuid(65534)
with SetIndex.open(sys.argv[1]) as index:
    print(index.search(make_sets(1))[0][0].id, flush=True)
    try:
        index.add(["x"], make_sets(1))
    except IndexFileError as error:
        print(error, flush=True)
    for line in sys.stdin:  # after whatever was written meanwhile
        ids = {hit.id for hit in index.search(make_sets(1), k=5000)[0]}
        print(len(ids), index.count(), index.verify(), flush=True)
"""


def test_a_read_only_folder_can_be_searched_but_not_written():
    with tempfile.TemporaryDirectory() as parent:  # pytest's own folders are closed to others
        os.chmod(parent, 0o755)
        with make_index(Path(parent), 20) as index:
            expected = index.search(make_sets(1))[0][0].id
        index.folder.chmod(0o555)
        best, error = run(READ_ONLY, index.folder).stdout.splitlines()
        index.folder.chmod(0o755)
    assert best == expected
    assert "read-only" in error


@pytest.mark.skipif(os.getuid() != 0, reason="needs a folder that the reader may not write to")
def test_a_read_only_reader_sees_concurrent_writes():
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
        assert "read-only" in reader.stdout.readline()

        def search_again() -> str:
            reader.stdin.write("again\n")
            reader.stdin.flush()
            return reader.stdout.readline().strip()

        assert search_again() == "1000 1000 []"
        for turn in (1, 2):  # the file alone; a writer beside it; the file alone
            with SetIndex.open(folder) as index:
                index.delete([f"id{n}" for n in range(300 * turn)])
                index.add([f"{turn}-{n}" for n in range(2000)], make_sets(2000, seed=turn))
                index.compact()
                expected = f"{index.count()} {index.count()} []"
                assert search_again() == expected
            assert search_again() == expected
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


def test_an_index_of_format_1_is_rejected_and_not_overwritten(tmp_path):
    (tmp_path / "truth.sqlite").touch()
    with pytest.raises(IndexFileError, match="has format 1, .* reads format 3; index .* again"):
        SetIndex.open(tmp_path)
    with pytest.raises(IndexFileError, match="already holds an index"):
        SetIndex.create(tmp_path, SETTINGS)
