"""SQLite connections, also to read-only files, and transactions."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

from diverset.runtime.files import replace_durably

BUSY_TIMEOUT = 60.0  # seconds that a writer waits for another one
# A damaged schema is quoted in the message, which Python may fail to decode.
DATABASE_ERRORS = (sqlite3.DatabaseError, UnicodeDecodeError)
FileStamp = tuple[int, int, int]
"""Modification time and size of a database file, and the size of its write-ahead log."""


def connect(file: Path) -> tuple[sqlite3.Connection, FileStamp | None]:
    """Open an existing file; the stamp is set where SQLite cannot lock the file.

    Readers of a WAL database need its -shm file, which they cannot create in a read-only folder.
    If no other process created it, nobody is writing, and the file can be opened as immutable. The
    caller then has to compare `file_stamp` to notice changes.
    """
    if os.access(file.parent, os.W_OK):
        return open_file(file, "rw"), None
    stamp = file_stamp(file)
    connection = open_file(file, "ro")
    try:
        connection.execute("SELECT 1 FROM sqlite_master")
        return connection, None
    except sqlite3.OperationalError:
        connection.close()
        if stamp[2]:  # the log holds changes that an immutable connection would not see
            raise
    return open_file(file, "ro&immutable=1"), stamp


def open_file(file: Path, mode: str) -> sqlite3.Connection:
    """A connection in one of SQLite's URI modes; "rwc" creates the file."""
    return sqlite3.connect(
        f"{file.resolve().as_uri()}?mode={mode}",
        uri=True,
        timeout=BUSY_TIMEOUT,
        isolation_level=None,
        check_same_thread=False,
    )


def file_stamp(file: Path) -> FileStamp:
    """A value that changes whenever a process writes to the file."""
    stat, log = file.stat(), file.with_name(f"{file.name}-wal")
    try:
        return stat.st_mtime_ns, stat.st_size, log.stat().st_size
    except FileNotFoundError:
        return stat.st_mtime_ns, stat.st_size, 0


def make_durable(connection: sqlite3.Connection) -> None:
    """Commits survive a power loss; readers do not wait for a writer."""
    connection.execute("PRAGMA journal_mode = WAL")
    connection.execute("PRAGMA synchronous = FULL")
    for pragma in ("fullfsync", "checkpoint_fullfsync"):  # macOS: also empty the disk's own cache
        connection.execute(f"PRAGMA {pragma} = ON")


def overwrite(target: Path, source: Path) -> None:
    """Give a database file the content of another one, which is deleted; on disk on return.

    Processes that have the target open see the new content. A target that is too damaged to be
    written to is replaced.
    """
    try:
        with closing(open_file(source, "ro")) as new, closing(open_file(target, "rwc")) as old:
            make_durable(old)
            new.backup(old)
        source.unlink()
    except DATABASE_ERRORS:
        for suffix in ("-wal", "-shm"):  # of the damaged file: they must not be applied to the new
            target.with_name(target.name + suffix).unlink(missing_ok=True)
        replace_durably(source, target)


@contextmanager
def reading(connection: sqlite3.Connection) -> Iterator[sqlite3.Connection]:
    """A read transaction: all statements see one state. Part of a transaction that is open."""
    if connection.in_transaction:
        yield connection
        return
    connection.execute("BEGIN")
    try:
        yield connection
    finally:
        if connection.in_transaction:
            connection.execute("ROLLBACK")


@contextmanager
def transaction(connection: sqlite3.Connection, wait: bool = True) -> Iterator[sqlite3.Connection]:
    """A write transaction: committed at the end of the block, rolled back on an exception.

    Args:
        connection: opened by this module.
        wait: False raises `sqlite3.OperationalError` at once if another process is writing.
    """
    connection.execute(f"PRAGMA busy_timeout = {int(1000 * BUSY_TIMEOUT * wait)}")
    try:
        connection.execute("BEGIN IMMEDIATE")
    finally:
        connection.execute(f"PRAGMA busy_timeout = {int(1000 * BUSY_TIMEOUT)}")
    try:
        yield connection
        connection.execute("COMMIT")
    except BaseException:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        raise
