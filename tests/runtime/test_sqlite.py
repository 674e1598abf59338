import sqlite3
from contextlib import closing

import pytest

from diverset.runtime.sqlite import (
    connect,
    file_stamp,
    make_durable,
    open_file,
    overwrite,
    transaction,
)


@pytest.fixture
def file(tmp_path):
    connection = open_file(tmp_path / "a.sqlite", "rwc")
    make_durable(connection)
    connection.execute("CREATE TABLE numbers (value INTEGER)")
    connection.close()
    return tmp_path / "a.sqlite"


def values(connection):
    return [value for (value,) in connection.execute("SELECT value FROM numbers")]


def test_transaction_commits_at_the_end_of_the_block(file):
    writer, reader = connect(file)[0], connect(file)[0]
    with transaction(writer) as connection:
        connection.execute("INSERT INTO numbers VALUES (1)")
        assert values(reader) == []
    assert values(reader) == [1]
    writer.close()
    reader.close()


def test_transaction_is_rolled_back_on_an_exception(file):
    connection, _ = connect(file)
    with pytest.raises(KeyboardInterrupt), transaction(connection):
        connection.execute("INSERT INTO numbers VALUES (1)")
        raise KeyboardInterrupt
    assert values(connection) == [] and not connection.in_transaction
    connection.close()


def test_transaction_that_does_not_wait_fails_at_once(file):
    first, second = connect(file)[0], connect(file)[0]
    with transaction(first):
        with pytest.raises(sqlite3.OperationalError, match="locked"):
            with transaction(second, wait=False):
                pass
    with transaction(second, wait=False):
        pass
    assert second.execute("PRAGMA busy_timeout").fetchone() == (60_000,)
    first.close()
    second.close()


def test_file_stamp_changes_with_every_write(file):
    connection, _ = connect(file)
    before = file_stamp(file)
    with transaction(connection):
        connection.execute("INSERT INTO numbers VALUES (1)")
    assert file_stamp(file) != before
    connection.close()


@pytest.mark.parametrize("damage", [None, 0, 3000])
def test_overwriting_a_database_is_seen_by_open_connections_or_replaces_a_damaged_one(
    tmp_path, damage
):
    target, source = tmp_path / "target.sqlite", tmp_path / "source.sqlite"
    for file, value in ((target, "old"), (source, "new")):
        with closing(open_file(file, "rwc")) as connection:
            make_durable(connection)
            connection.execute("CREATE TABLE things (name TEXT)")
            connection.executemany("INSERT INTO things VALUES (?)", [(value,)] * 500)
    with closing(open_file(target, "rw")) as reader:
        assert reader.execute("SELECT max(name) FROM things").fetchone() == ("old",)
        if damage is not None:
            reader.close()
            with open(target, "rb+") as file:
                file.seek(damage)
                file.write(b"damage" * 100)
        overwrite(target, source)
        if damage is None:
            assert reader.execute("SELECT max(name) FROM things").fetchone() == ("new",)
    assert not source.exists()
    with closing(open_file(target, "rw")) as reader:
        assert reader.execute("PRAGMA integrity_check").fetchone() == ("ok",)
        assert reader.execute("SELECT max(name) FROM things").fetchone() == ("new",)
