"""Checksums of stored rows, blocks and files, to notice damage when they are read.

CRC-32 finds every damage of up to 32 neighbouring bits and misses others once in four billion. zlib
computes it at more than 3 GB/s, so no other package is needed (docs/adr/0008-checksums.md).
"""

from __future__ import annotations

import sqlite3
import zlib
from contextlib import closing
from functools import cache
from pathlib import Path
from typing import Any, BinaryIO

CHUNK = 2**22  # bytes read at once
TOTALS = """
CREATE TABLE IF NOT EXISTS totals (
    name TEXT PRIMARY KEY, count INTEGER NOT NULL, checksum INTEGER NOT NULL) WITHOUT ROWID;
"""


def checksum(data: Any, start: int = 0) -> int:
    """The checksum of bytes or of a contiguous array; `start` is that of what comes before.

    >>> checksum(b"world", checksum(b"hello ")) == checksum(b"hello world")
    True
    """
    return zlib.crc32(data, start)


def row_checksum(*values: object) -> int:
    """The checksum of the values of a row, which are text, numbers or None.

    >>> row_checksum(1, "a") == row_checksum(1, "b")
    False
    """
    # ascii, not repr: which characters repr escapes depends on the version of Python.
    return zlib.crc32(ascii(values).encode())


def file_checksum(file: Path) -> int:
    """The checksum of a whole file."""
    with open(file, "rb") as opened:
        return rest_checksum(opened)


def rest_checksum(opened: BinaryIO) -> int:
    """The checksum of what has not been read of a file."""
    value = 0
    while chunk := opened.read(CHUNK):
        value = zlib.crc32(chunk, value)
    return value


def count_rows(table: str, column: str = "checksum", name: str | None = None) -> str:
    """SQL triggers that keep the number of rows of a table and the sum of their checksums.

    A row that is lost or that appears changes the totals, which no checksum of a row could tell.

    Args:
        table: of the rows.
        column: that is added up.
        name: SQL expression over ROW for the name of the total; default: that of the table.
    """
    label = name or f"'{table}'"
    kind = f"{table}_part" if name else table
    new, old = label.replace("ROW", "NEW"), label.replace("ROW", "OLD")
    return f"""
CREATE TRIGGER IF NOT EXISTS {kind}_added AFTER INSERT ON {table} BEGIN
    INSERT INTO totals VALUES ({new}, 1, NEW.{column}) ON CONFLICT (name) DO UPDATE
        SET count = count + 1, checksum = checksum + NEW.{column};
END;
CREATE TRIGGER IF NOT EXISTS {kind}_deleted AFTER DELETE ON {table} BEGIN
    UPDATE totals SET count = count - 1, checksum = checksum - OLD.{column} WHERE name = {old};
END;
"""


def stored_schema(connection: sqlite3.Connection) -> list[tuple[str, str]]:
    """Names and statements of all tables and triggers of a database."""
    statement = "SELECT name, coalesce(sql, '') FROM sqlite_master ORDER BY name"
    return connection.execute(statement).fetchall()


@cache
def expected_schema(script: str) -> list[tuple[str, str]]:
    """What `stored_schema` returns for an intact database that this script created."""
    with closing(sqlite3.connect(":memory:")) as connection:
        connection.executescript(script)
        return stored_schema(connection)


def read_total(connection: sqlite3.Connection, name: str) -> tuple[int, int]:
    """The recorded number of rows and the sum of their checksums."""
    query = "SELECT count, checksum FROM totals WHERE name = ?"
    row = connection.execute(query, (name,)).fetchone()
    return (row[0], row[1]) if row else (0, 0)
