"""SQLite connections, also to read-only files, and transactions.

Closing the last connection of a process to a file seals the file (`runtime.seal`).
"""

from __future__ import annotations

import os
import sqlite3
import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import Any
from weakref import WeakSet

from diverset.runtime.files import replace_durably
from diverset.runtime.seal import break_seal, differs_from_seal, seal

BUSY_TIMEOUT = 60.0  # seconds that a writer waits for another one
# A damaged schema is quoted in the message, which Python may fail to decode.
DATABASE_ERRORS = (sqlite3.DatabaseError, UnicodeDecodeError)
SEAL_LIMIT = 2**28  # bytes; checksums of larger files would make closing slow (0.1 s)
FileStamp = tuple[int, int, int]
"""Modification time and size of a database file, and the size of its write-ahead log."""
_open: WeakSet[Connection] = WeakSet()
_written: set[Path] = set()  # files that this process wrote to and has not sealed
_open_lock = threading.RLock()  # no file is opened while one is sealed


class Connection(sqlite3.Connection):
    """A connection that seals a file that this process wrote to, if it is its last one to it."""

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self.file: Path | None = None
        self.seal_limit: int | None = SEAL_LIMIT  # bytes; None: any size

    def close(self) -> None:
        with _open_lock:
            if self.file is not None and self in _open:
                _open.discard(self)
                if self.total_changes:
                    _written.add(self.file)
                if self.file in _written and not _is_open(self.file) and not self.in_transaction:
                    self._close_sealed(self.file)
            super().close()

    def _close_sealed(self, file: Path) -> None:
        _written.discard(file)
        # If the file cannot be read or is in use by another process, it stays without a seal.
        with suppress(OSError, *DATABASE_ERRORS), open(file, "rb") as raw:
            try:
                if self.seal_limit is None or os.fstat(raw.fileno()).st_size <= self.seal_limit:
                    seal(self, raw)
            finally:
                super().close()  # before the file, see `seal`


def _is_open(file: Path) -> bool:
    return any(connection.file == file for connection in _open)


def has_broken_seal(file: Path) -> bool:
    """Whether a file differs from its seal; False as well if this process has the file open."""
    with _open_lock:
        return not _is_open(file.resolve()) and differs_from_seal(file)


def connect(file: Path) -> tuple[Connection, FileStamp | None]:
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


def open_file(file: Path, mode: str) -> Connection:
    """A connection in one of SQLite's URI modes; "rwc" creates the file."""
    path = file.resolve()
    with _open_lock:
        connection = sqlite3.connect(
            f"{path.as_uri()}?mode={mode}",
            uri=True,
            timeout=BUSY_TIMEOUT,
            isolation_level=None,
            check_same_thread=False,
            factory=Connection,
        )
        connection.file = path
        _open.add(connection)
    return connection


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


def copy_database(source: sqlite3.Connection, target: Connection) -> None:
    """Make a database equal to another one as of now; it is sealed when it is closed."""
    source.backup(target)
    target.seal_limit = None
    unseal(target)  # what was copied: SQLite changes the header of the copy


def unseal(connection: Connection) -> None:
    """Remove the seal of a file until it is closed."""
    with transaction(connection):
        if connection.file is not None:
            _written.add(connection.file)


def overwrite(target: Path, source: Path) -> None:
    """Give a database file the content of another one, which is deleted; on disk on return.

    Processes that have the target open see the new content. A target that is too damaged to be
    written to is replaced.
    """
    try:
        with closing(open_file(source, "rw")) as new, closing(open_file(target, "rwc")) as old:
            make_durable(old)
            unseal(new)  # killed after the copy, the target must not have the seal of another file
            copy_database(new, old)
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
        break_seal(connection)
        yield connection
        connection.execute("COMMIT")
    except BaseException:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        raise
