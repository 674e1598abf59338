"""SQLite connections, also to read-only files, and transactions.

Closing the last connection of a process to a file that it wrote to stores a checksum of the file
(`runtime.sqlite_checksum`).
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
from diverset.runtime.sqlite_checksum import clear_checksum, has_changed, store_checksum

BUSY_TIMEOUT = 60.0  # seconds that a writer waits for another one
# A damaged schema is quoted in the message, which Python may fail to decode.
DATABASE_ERRORS = (sqlite3.DatabaseError, UnicodeDecodeError)
CHECKSUM_LIMIT = 2**28  # bytes; closing a larger file would be slow (0.1 s)
FileStamp = tuple[int, int, int]
"""Modification time and size of a database file, and the size of its write-ahead log."""
_open: WeakSet[Connection] = WeakSet()
_written: set[Path] = set()  # files that this process wrote to since their last checksum
_open_lock = threading.RLock()  # no file is opened while a checksum is computed


class Connection(sqlite3.Connection):
    """The last connection of a process to a file that it wrote to stores the file's checksum."""

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self.file: Path | None = None
        self.checksum_limit: int | None = CHECKSUM_LIMIT  # bytes; None: any size

    def close(self) -> None:
        with _open_lock:
            if self.file is not None and self in _open:
                _open.discard(self)
                if self.total_changes:
                    _written.add(self.file)
                if self.file in _written and not _is_open(self.file) and not self.in_transaction:
                    self._close_with_checksum(self.file)
            super().close()

    def _close_with_checksum(self, file: Path) -> None:
        _written.discard(file)
        # A file that cannot be read or is in use by another process stays without a checksum.
        with suppress(OSError, *DATABASE_ERRORS), open(file, "rb") as raw:
            try:
                limit = self.checksum_limit
                if limit is None or os.fstat(raw.fileno()).st_size <= limit:
                    store_checksum(self, raw)
            finally:
                super().close()  # before the file, see `store_checksum`


def _is_open(file: Path) -> bool:
    return any(connection.file == file for connection in _open)


def has_wrong_checksum(file: Path) -> bool:
    """Whether a file differs from its checksum; False as well if this process has it open."""
    with _open_lock:
        return not _is_open(file.resolve()) and has_changed(file)


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
    """Make a database equal to another one as of now; closing it stores its checksum."""
    source.backup(target)
    target.checksum_limit = None
    mark_written(target)  # what was copied: SQLite changes the header of the copy


def mark_written(connection: Connection) -> None:
    """Clear the checksum of a file; closing it stores a new one."""
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
            mark_written(new)  # killed after the copy, the target must not have its checksum
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
        clear_checksum(connection)
        yield connection
        connection.execute("COMMIT")
    except BaseException:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        raise
