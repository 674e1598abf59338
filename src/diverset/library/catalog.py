"""What a library knows of files: which folders are in it, each file's size, time, hash and fate.

One SQLite file beside the indexes. A file is `pending` from before its set is stored until after,
so that a kill at any moment leaves nothing in an index that is not known here. It knows neither
sets nor pictures.
"""

from __future__ import annotations

import json
import os
import sqlite3
import threading
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import astuple, dataclass
from pathlib import Path
from typing import Any
from uuid import uuid4

from diverset.databases import connect, make_durable, open_file
from diverset.errors import IndexFileError
from diverset.library.walking import Found

FILE = "files.sqlite"
FORMAT = 2
INDEXED, SKIPPED, PENDING = "indexed", "skipped", "pending"
SCHEMA = """
CREATE TABLE IF NOT EXISTS about (key TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS roots (path TEXT PRIMARY KEY) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS files (
    path TEXT PRIMARY KEY, size INTEGER NOT NULL, mtime_ns INTEGER NOT NULL,
    digest TEXT NOT NULL, status TEXT NOT NULL, reason TEXT NOT NULL,
    place TEXT NOT NULL) WITHOUT ROWID;
CREATE INDEX IF NOT EXISTS by_digest ON files (digest);
CREATE TABLE IF NOT EXISTS tables (
    path TEXT PRIMARY KEY, size INTEGER NOT NULL, mtime_ns INTEGER NOT NULL,
    items INTEGER NOT NULL, column TEXT NOT NULL) WITHOUT ROWID;
"""


@dataclass(frozen=True, slots=True)
class File:
    """A file that was looked at: `indexed`, `skipped` for a reason, or `pending`.

    `place` is where its path led when it was read: what it leads to later is another file.
    """

    path: str
    size: int
    mtime_ns: int
    digest: str = ""
    status: str = INDEXED
    reason: str = ""
    place: str = ""

    def is_as(self, found: Found) -> bool:
        """Whether nothing speaks for a change since then."""
        same = (self.size, self.mtime_ns) == (found.size, found.mtime_ns)
        return same and self.status != PENDING


@dataclass(frozen=True, slots=True)
class Table:
    """A table of texts: how many of it are indexed at most, and of which column."""

    path: str
    size: int
    mtime_ns: int
    items: int
    column: str = ""


class Catalog:
    """The file; made where it is not there."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._lock = threading.RLock()
        with self._reporting():
            if os.access(folder, os.W_OK):
                self._connection = open_file(folder / FILE, "rwc")
                make_durable(self._connection)
                self._connection.executescript(SCHEMA)
            else:
                self._connection, _ = connect(folder / FILE)
        if self.about.setdefault("format", FORMAT) != FORMAT:
            raise IndexFileError(
                f"{folder} has format {self.about['format']}, this diverset reads {FORMAT}; index "
                "into another --library, or install the version that wrote it"
            )

    @property
    def about(self) -> dict[str, Any]:
        """Model and format, as they were written by `begin`."""
        return {key: json.loads(value) for key, value in self._all("SELECT * FROM about")}

    def begin(self, about: dict[str, Any]) -> None:
        """Start anew for a model: folders and tables stay known, what was in them does not."""
        with self._writing() as connection:
            connection.execute("DELETE FROM files")
            connection.execute("UPDATE tables SET size = 0, mtime_ns = 0, items = 0")
            for key, value in {"format": FORMAT, "made": uuid4().hex, **about}.items():
                connection.execute("REPLACE INTO about VALUES (?, ?)", (key, json.dumps(value)))

    def note(self, key: str, value: Any) -> None:
        """Write one more thing down, such as how far indexing is."""
        with self._writing() as connection:
            connection.execute("REPLACE INTO about VALUES (?, ?)", (key, json.dumps(value)))

    @property
    def roots(self) -> list[Path]:
        return [Path(path) for (path,) in self._all("SELECT path FROM roots ORDER BY path")]

    def add_root(self, root: Path) -> None:
        with self._writing() as connection:
            connection.execute("INSERT OR IGNORE INTO roots VALUES (?)", (str(root),))

    def forget_root(self, root: Path) -> None:
        with self._writing() as connection:
            connection.execute("DELETE FROM roots WHERE path = ?", (str(root),))

    def files(self, status: str = "") -> Iterator[File]:
        """All files, or those of one status, by path."""
        which, values = ("WHERE status = ?", [status]) if status else ("", [])
        for row in self._all(f"SELECT * FROM files {which} ORDER BY path", values):
            yield File(*row)

    def file(self, path: str) -> File | None:
        found = self._all("SELECT * FROM files WHERE path = ?", [path])
        return File(*found[0]) if found else None

    def with_digest(self, digest: str) -> str | None:
        """The path of an indexed file with this content."""
        found = self._all(
            "SELECT path FROM files WHERE digest = ? AND status = ? LIMIT 1", [digest, INDEXED]
        )
        return str(found[0][0]) if found else None

    def put(self, files: Iterable[File]) -> None:
        """Write files down, replacing what was known of them."""
        rows = [astuple(one) for one in files]
        with self._writing() as connection:
            connection.executemany("REPLACE INTO files VALUES (?, ?, ?, ?, ?, ?, ?)", rows)

    def forget(self, paths: Iterable[str]) -> None:
        with self._writing() as connection:
            connection.executemany("DELETE FROM files WHERE path = ?", [(one,) for one in paths])

    def count(self, status: str) -> int:
        return int(self._all("SELECT count(*) FROM files WHERE status = ?", [status])[0][0])

    def tables(self) -> dict[str, Table]:
        """Tables of texts by their path."""
        return {row[0]: Table(*row) for row in self._all("SELECT * FROM tables")}

    def put_table(self, table: Table) -> None:
        with self._writing() as connection:
            connection.execute("REPLACE INTO tables VALUES (?, ?, ?, ?, ?)", astuple(table))

    def forget_table(self, path: str) -> None:
        with self._writing() as connection:
            connection.execute("DELETE FROM tables WHERE path = ?", (path,))

    def close(self) -> None:
        self._connection.close()

    def _all(self, statement: str, values: list[Any] | None = None) -> list[Any]:
        with self._lock, self._reporting():
            return self._connection.execute(statement, values or []).fetchall()

    @contextmanager
    def _writing(self) -> Iterator[sqlite3.Connection]:
        with self._lock, self._reporting():
            self._connection.execute("BEGIN IMMEDIATE")
            try:
                yield self._connection
                self._connection.execute("COMMIT")
            except BaseException:
                if self._connection.in_transaction:
                    self._connection.execute("ROLLBACK")
                raise

    @contextmanager
    def _reporting(self) -> Iterator[None]:
        try:
            yield
        except sqlite3.DatabaseError as error:
            raise IndexFileError(
                f"{self.folder / FILE}: {error}; check the free space and the permissions"
            ) from error
