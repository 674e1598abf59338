"""A checksum over a whole SQLite file, so that damage to bytes that no table uses is noticed too.

It is the `application_id` in the header of the file, which SQLite leaves to applications. Every
write transaction sets it to 0, and closing the file sets it again: it changes together with the
content, whenever the process is killed. Connections of `runtime.sqlite` do both.
"""

from __future__ import annotations

import os
import sqlite3
from pathlib import Path
from typing import BinaryIO

from diverset.runtime.checksums import checksum, rest_checksum

HEADER = 100  # bytes
# Fields of the header that the transaction writes that stores the checksum.
CHANGE_COUNTER, CHECKSUM = slice(24, 28), slice(68, 72)
VALID_FOR, VERSION = slice(92, 96), slice(96, 100)


def has_checksum(connection: sqlite3.Connection) -> bool:
    """Whether the file has a checksum."""
    [(value,)] = connection.execute("PRAGMA application_id").fetchall()
    return bool(value)


def clear_checksum(connection: sqlite3.Connection) -> None:
    """Call it within a write transaction, before the first change."""
    if has_checksum(connection):
        connection.execute("PRAGMA application_id = 0")


def store_checksum(connection: sqlite3.Connection, raw: BinaryIO) -> None:
    """Store the checksum of a file, unless another process uses the file now.

    Args:
        connection: to the file, outside a transaction.
        raw: the same file. Close it after the connection: closing it drops the locks of SQLite.
    """
    connection.execute("PRAGMA busy_timeout = 0")
    if has_checksum(connection) or not _is_complete(connection, raw):
        return
    connection.execute("BEGIN IMMEDIATE")
    if not _log_size(Path(raw.name)):  # nobody wrote in between, and nobody can now
        header, rest = _read(raw)
        major, minor, patch = sqlite3.sqlite_version_info
        header[VERSION] = (major * 1_000_000 + minor * 1_000 + patch).to_bytes(4, "big")
        value = int.from_bytes(_combine(header, rest).to_bytes(4, "big"), "big", signed=True)
        connection.execute(f"PRAGMA application_id = {value}")
    connection.execute("COMMIT")
    connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()


def has_changed(file: Path) -> bool:
    """Whether a file differs from its checksum; False for a file that is missing or has none.

    Call it while this process has no connection to the file.
    """
    try:
        with open(file, "rb") as raw:
            header, rest = _read(raw)
            raw.seek(0)
            is_stable = raw.read(HEADER) == header and not _log_size(file)  # nobody writes to it
    except FileNotFoundError:
        return False
    stored = int.from_bytes(header[CHECKSUM], "big")
    if not is_stable or len(header) < HEADER or not stored:
        return False
    return header[CHANGE_COUNTER] != header[VALID_FOR] or _combine(header, rest) != stored


def _is_complete(connection: sqlite3.Connection, raw: BinaryIO) -> bool:
    """Copy the write-ahead log into the file; False if another connection prevents it."""
    [(busy, _, _)] = connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
    return not busy and not _log_size(Path(raw.name))


def _log_size(file: Path) -> int:
    try:
        return os.stat(f"{file}-wal").st_size
    except FileNotFoundError:
        return 0


def _read(raw: BinaryIO) -> tuple[bytearray, int]:
    """The header of a file, and the checksum of the rest."""
    raw.seek(0)
    return bytearray(raw.read(HEADER)), rest_checksum(raw)


def _combine(header: bytearray, rest: int) -> int:
    """The checksum of a file without the fields that storing it changes; never 0."""
    kept = bytearray(header)
    for field in (CHANGE_COUNTER, CHECKSUM, VALID_FOR):
        kept[field] = bytes(4)
    return checksum(kept, rest) or 1
