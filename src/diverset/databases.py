"""Opening SQLite files, also where they can only be read.

It knows nothing of what is in them.
"""

from __future__ import annotations

import os
import sqlite3
from pathlib import Path

PATIENCE = 60.0  # seconds that a writer waits for another one
Stamp = tuple[int, int, int]
"""Of a file: when it was written, its size, and the size of its log."""


def connect(file: Path) -> tuple[sqlite3.Connection, Stamp | None]:
    """A connection to a file that is there, and a stamp where SQLite cannot lock it and has to be
    told of changes.

    Readers need the shared memory beside the file. Who may not write to the folder cannot make
    it; then nobody else has made it either, nobody is writing, and the file alone is the truth.
    """
    if os.access(file.parent, os.W_OK):
        return open_file(file, "rw"), None
    stamp = stamp_of(file)
    connection = open_file(file, "ro")
    try:
        connection.execute("SELECT 1 FROM sqlite_master")
        return connection, None
    except sqlite3.OperationalError:
        connection.close()
        if stamp[2]:  # a log that has to be read as well
            raise
    return open_file(file, "ro&immutable=1"), stamp


def open_file(file: Path, mode: str) -> sqlite3.Connection:
    """A connection in one of SQLite's modes; "rwc" makes the file."""
    return sqlite3.connect(
        f"{file.resolve().as_uri()}?mode={mode}",
        uri=True,
        timeout=PATIENCE,
        isolation_level=None,
        check_same_thread=False,
    )


def stamp_of(file: Path) -> Stamp:
    """What changes whenever somebody writes to the file."""
    about, log = file.stat(), file.with_name(f"{file.name}-wal")
    try:
        return about.st_mtime_ns, about.st_size, log.stat().st_size
    except FileNotFoundError:
        return about.st_mtime_ns, about.st_size, 0


def make_durable(connection: sqlite3.Connection) -> None:
    """What was committed survives a loss of power; readers do not wait for a writer."""
    connection.execute("PRAGMA journal_mode = WAL")
    connection.execute("PRAGMA synchronous = FULL")
