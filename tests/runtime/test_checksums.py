"""Checksums of rows and files, and totals that notice lost rows."""

import sqlite3
from contextlib import closing

import pytest

from diverset.runtime.checksums import (
    TOTALS,
    checksum,
    count_rows,
    file_checksum,
    read_total,
    row_checksum,
)


@pytest.fixture
def connection():
    with closing(sqlite3.connect(":memory:", isolation_level=None)) as opened:
        opened.execute("PRAGMA recursive_triggers = ON")
        opened.executescript(
            f"CREATE TABLE things (name TEXT PRIMARY KEY, checksum INTEGER); {TOTALS}"
            + count_rows("things")
        )
        yield opened


def test_every_changed_bit_changes_the_checksum():
    data = bytes(range(256))
    for position in range(len(data)):
        for bit in range(8):
            changed = bytearray(data)
            changed[position] ^= 1 << bit
            assert checksum(changed) != checksum(data)


def test_the_checksum_of_a_row_depends_on_types_and_order():
    rows = [(1, "a"), ("1", "a"), (1.0, "a"), ("a", 1), (1, "a", None), (1, "ä"), (1, "a ")]
    assert len({row_checksum(*row) for row in rows}) == len(rows)


def test_the_checksum_of_a_file_is_that_of_its_content(tmp_path):
    content = b"0123456789" * 1000
    (tmp_path / "file").write_bytes(content)
    assert file_checksum(tmp_path / "file") == checksum(content)


def test_totals_follow_inserts_replacements_and_deletions(connection):
    for name, value in (("a", 5), ("b", 7), ("c", 11)):
        connection.execute("INSERT INTO things VALUES (?, ?)", (name, value))
    connection.execute("REPLACE INTO things VALUES ('b', 100)")
    connection.execute("DELETE FROM things WHERE name = 'a'")
    assert read_total(connection, "things") == (2, 111)
    connection.execute("DELETE FROM things")
    assert read_total(connection, "things") == (0, 0)


def test_a_rolled_back_insert_does_not_count(connection):
    connection.execute("BEGIN")
    connection.execute("INSERT INTO things VALUES ('a', 5)")
    connection.execute("ROLLBACK")
    assert read_total(connection, "things") == (0, 0)
