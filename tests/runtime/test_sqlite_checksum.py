"""A closed database file has a checksum of all its bytes, and no other file has one."""

import shutil
import sqlite3

import pytest

from diverset.runtime import sqlite
from diverset.runtime.sqlite import (
    connect,
    copy_database,
    has_wrong_checksum,
    make_durable,
    open_file,
    overwrite,
    transaction,
)
from diverset.runtime.sqlite_checksum import has_checksum


@pytest.fixture
def file(tmp_path):
    """A closed database with a deleted row, so with bytes that no table uses."""
    connection = open_file(tmp_path / "a.sqlite", "rwc")
    connection.execute("PRAGMA page_size = 512")
    make_durable(connection)
    with transaction(connection):
        connection.execute("CREATE TABLE numbers (value)")
        connection.executemany("INSERT INTO numbers VALUES (?)", [(1,), (2,), (b"x" * 2000,)])
    with transaction(connection):
        connection.execute("DELETE FROM numbers WHERE value <> 1")
    connection.close()
    return tmp_path / "a.sqlite"


def stores_checksum(file):
    connection, _ = connect(file)
    result = has_checksum(connection)
    connection.close()
    return result


def write(file, value=5):
    connection, _ = connect(file)
    with transaction(connection):
        connection.execute("INSERT INTO numbers VALUES (?)", (value,))
    return connection


def test_every_single_changed_bit_of_a_closed_file_is_noticed(file):
    assert stores_checksum(file) and not has_wrong_checksum(file)
    content = file.read_bytes()
    assert len(content) > 3000
    unnoticed = []
    for position in range(len(content)):
        changed = bytearray(content)
        changed[position] ^= 1 << position % 8
        file.write_bytes(changed)
        if not has_wrong_checksum(file):
            unnoticed.append(position)
    assert unnoticed == []
    file.write_bytes(content[:-512])
    assert has_wrong_checksum(file)


def test_a_write_clears_the_checksum_and_closing_stores_a_new_one(file):
    before = file.read_bytes()
    connection = write(file)
    assert not has_checksum(connection)
    connection.close()
    assert stores_checksum(file) and not has_wrong_checksum(file)
    assert file.read_bytes() != before


def test_a_transaction_that_is_rolled_back_keeps_the_checksum(file):
    connection, _ = connect(file)
    with pytest.raises(ZeroDivisionError), transaction(connection):
        connection.execute("INSERT INTO numbers VALUES (7)")
        raise ZeroDivisionError
    assert has_checksum(connection)
    connection.close()
    assert not has_wrong_checksum(file)


def test_what_a_killed_process_leaves_has_no_checksum(file, tmp_path):
    connection = write(file)
    (tmp_path / "killed").mkdir()
    for name in ("a.sqlite", "a.sqlite-wal"):
        shutil.copy(tmp_path / name, tmp_path / "killed" / name)
    connection.close()
    killed = tmp_path / "killed" / "a.sqlite"
    assert not has_wrong_checksum(killed)
    assert not stores_checksum(killed)
    assert not has_wrong_checksum(killed)
    write(killed, 6).close()
    assert stores_checksum(killed) and not has_wrong_checksum(killed)


def test_the_last_connection_of_a_process_stores_the_checksum_of_what_another_one_wrote(file):
    reader, writer = connect(file)[0], write(file)
    writer.close()
    assert not has_checksum(reader)
    reader.close()
    assert stores_checksum(file) and not has_wrong_checksum(file)


def test_no_checksum_is_stored_while_another_process_reads_an_older_state(file):
    other = sqlite3.connect(file, isolation_level=None)  # unknown here, like another process
    other.execute("BEGIN")
    other.execute("SELECT * FROM numbers").fetchall()
    write(file).close()
    assert not stores_checksum(file)
    other.close()
    write(file).close()
    assert stores_checksum(file)


def test_large_files_get_a_checksum_only_on_request(file, monkeypatch):
    monkeypatch.setattr(sqlite, "CHECKSUM_LIMIT", 100)
    write(file).close()
    assert not stores_checksum(file)
    connection = write(file)
    connection.checksum_limit = None
    connection.close()
    assert stores_checksum(file)


def test_a_copy_gets_a_checksum_when_it_is_closed(file, tmp_path):
    source, copy = connect(file)[0], open_file(tmp_path / "copy.sqlite", "rwc")
    copy_database(source, copy)
    assert not has_checksum(copy)
    copy.close()
    source.close()
    assert stores_checksum(tmp_path / "copy.sqlite") and not has_wrong_checksum(
        tmp_path / "copy.sqlite"
    )


def test_a_file_that_is_overwritten_never_has_the_checksum_of_another(file, tmp_path, monkeypatch):
    source = shutil.copy(file, tmp_path / "source.sqlite")
    write(source, 9).close()

    def killed_after_the_copy(source, target):
        source.backup(target)
        raise KeyboardInterrupt

    monkeypatch.setattr(sqlite, "copy_database", killed_after_the_copy)
    with pytest.raises(KeyboardInterrupt):
        overwrite(file, source)
    connection, _ = connect(file)
    assert connection.execute("SELECT * FROM numbers").fetchall() == [(1,), (9,)]
    connection.close()
    assert not stores_checksum(file) and not has_wrong_checksum(file)


def test_a_file_that_this_process_has_open_is_not_read_past_sqlite(file):
    connection, _ = connect(file)
    content = bytearray(file.read_bytes())
    content[-1] ^= 1
    with open(file, "rb+") as opened:
        opened.write(content)
    assert not has_wrong_checksum(file)  # reading it would drop the locks of the connection
    connection.close()
    assert has_wrong_checksum(file)
