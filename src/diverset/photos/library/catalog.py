"""The library's record of files: indexed folders, and the size, time, hash and status of each file.

One SQLite file beside the indexes. A file is `pending` from before its set is stored until after,
so a kill at any moment leaves nothing in an index that is not recorded here. Rows have checksums;
the large table of files is checked once per connection, the others whenever they are read.
"""

from __future__ import annotations

import json
import os
import sqlite3
import threading
from collections.abc import Iterable, Iterator
from contextlib import closing, contextmanager
from dataclasses import astuple, dataclass, replace
from pathlib import Path
from typing import Any
from uuid import uuid4

from diverset.data.walking import ImageFile
from diverset.errors import DamagedError, IndexFileError
from diverset.runtime.checksums import (
    TOTALS,
    count_rows,
    expected_schema,
    read_total,
    row_checksum,
    stored_schema,
)
from diverset.runtime.sqlite import (
    DATABASE_ERRORS,
    connect,
    copy_database,
    make_durable,
    open_file,
    reading,
    transaction,
)

CATALOG_FILE = "files.sqlite"
FORMAT = 5
INDEXED, SKIPPED, PENDING = "indexed", "skipped", "pending"
REPAIR = "run diverset verify --repair, or restore a snapshot"
SCHEMA = f"""
CREATE TABLE IF NOT EXISTS info (key TEXT PRIMARY KEY, value TEXT NOT NULL,
    checksum INTEGER NOT NULL) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS roots (path TEXT PRIMARY KEY, checksum INTEGER NOT NULL) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS files (
    path TEXT PRIMARY KEY, size INTEGER NOT NULL, mtime_ns INTEGER NOT NULL,
    digest TEXT NOT NULL, status TEXT NOT NULL, reason TEXT NOT NULL,
    real_path TEXT NOT NULL, checksum INTEGER NOT NULL) WITHOUT ROWID;
CREATE INDEX IF NOT EXISTS by_digest ON files (digest);
CREATE TABLE IF NOT EXISTS tables (
    path TEXT PRIMARY KEY, size INTEGER NOT NULL, mtime_ns INTEGER NOT NULL,
    items INTEGER NOT NULL, column TEXT, checksum INTEGER NOT NULL) WITHOUT ROWID;
{TOTALS}
{"".join(count_rows(table) for table in ("info", "roots", "files", "tables"))}
"""


@dataclass(frozen=True, slots=True)
class FileRecord:
    """A file that was read: `indexed`, `skipped` for a reason, or `pending`.

    `real_path` is the path with links resolved at that time; a link that leads elsewhere later is
    another file.
    """

    path: str
    size: int
    mtime_ns: int
    digest: str = ""
    status: str = INDEXED
    reason: str = ""
    real_path: str = ""

    def is_unchanged(self, file: ImageFile) -> bool:
        """Whether size and time are those on disk and the set was stored completely."""
        same = (self.size, self.mtime_ns) == (file.size, file.mtime_ns)
        return same and self.status != PENDING


@dataclass(frozen=True, slots=True)
class TextTable:
    """A table of texts: the column that is indexed, and an upper bound of its indexed rows."""

    path: str
    size: int
    mtime_ns: int
    items: int
    column: str | None = None


def text_id(table: str | Path, row: int) -> str:
    """The id of a row of a table in the index of texts.

    >>> text_id("/texts/captions.csv", 3)
    '/texts/captions.csv#3'
    """
    return f"{table}#{row}"


class Catalog:
    """The SQLite file of a library, created if missing."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._lock = threading.RLock()
        self._checked = False  # whether `files` is intact
        with self._reporting_errors():
            file, writable = folder / CATALOG_FILE, os.access(folder, os.W_OK)
            self._connection = open_file(file, "rwc") if writable else connect(file)[0]
            self._connection.execute("PRAGMA recursive_triggers = ON")  # REPLACE updates the totals
            version = self._version()
            if writable and version in (None, FORMAT):
                make_durable(self._connection)
            if writable and version is None:
                self._connection.executescript(
                    f"BEGIN IMMEDIATE; {SCHEMA} PRAGMA user_version = {FORMAT}; COMMIT;"
                )
            schema = stored_schema(self._connection)
        is_current = version in (None, FORMAT)
        if schema and is_current != (schema == expected_schema(SCHEMA)):
            self.close()
            raise self._damaged("the schema, or its version")
        if not is_current:
            self.close()
            raise IndexFileError(
                f"{folder} was written by another version of diverset (library format {version}, "
                f"this one reads {FORMAT}); index into another --library, or delete this one"
            )

    def _version(self) -> int | None:
        """The format of the file, None where it is empty."""
        [(version,)] = self._connection.execute("PRAGMA user_version").fetchall()
        [(tables,)] = self._connection.execute("SELECT count(*) FROM sqlite_master").fetchall()
        return int(version) if tables else None

    @property
    def info(self) -> dict[str, Any]:
        """Model and other values, as written by `reset` and `set_info`."""
        return {key: json.loads(value) for key, value in self._rows("info")}

    def reset(self, info: dict[str, Any]) -> None:
        """Start over for a model: folders and tables stay, records of their content do not."""
        tables = self.tables().values()
        with self._transaction() as connection:
            connection.execute("DELETE FROM files")
            for table in tables:
                self.put_table(replace(table, size=0, mtime_ns=0, items=0))
            for key, value in {"build_id": uuid4().hex, **info}.items():
                self.set_info(key, value)

    def set_info(self, key: str, value: Any) -> None:
        """Store a value in `info`, such as the progress of indexing."""
        self.put_rows("info", [(key, json.dumps(value))])

    @property
    def roots(self) -> list[Path]:
        return [Path(path) for (path,) in sorted(self._rows("roots"))]

    def add_root(self, root: Path) -> None:
        self.put_rows("roots", [(str(root),)])

    def remove_root(self, root: Path) -> None:
        self._write("DELETE FROM roots WHERE path = ?", [(str(root),)])

    def files(self, status: str | None = None) -> Iterator[FileRecord]:
        """All files, or those with a status, ordered by path."""
        condition, values = ("", []) if status is None else ("WHERE status = ?", [status])
        for row in self._query_files(f"SELECT * FROM files {condition} ORDER BY path", values):
            yield FileRecord(*row[:-1])

    def file(self, path: str) -> FileRecord | None:
        rows = self._query_files("SELECT * FROM files WHERE path = ?", [path])
        return FileRecord(*rows[0][:-1]) if rows else None

    def path_with_digest(self, digest: str) -> str | None:
        """The path of an indexed file with this content."""
        rows = self._query_files(
            "SELECT path FROM files WHERE digest = ? AND status = ? LIMIT 1", [digest, INDEXED]
        )
        return str(rows[0][0]) if rows else None

    def identical_files(self) -> list[list[str]]:
        """Paths of indexed files, grouped by content; only content that several files have."""
        groups: dict[str, list[str]] = {}
        for digest, path in self._query_files(
            "SELECT digest, path FROM files WHERE status = ?1 AND digest IN (SELECT digest "
            "FROM files WHERE status = ?1 GROUP BY digest HAVING count(*) > 1) ORDER BY path",
            [INDEXED],
        ):
            groups.setdefault(digest, []).append(path)
        return list(groups.values())

    @property
    def state(self) -> tuple[int, int]:
        """Changes with every write, of this process or another one."""
        [(version,)] = self._query("PRAGMA data_version")  # counts writes of other connections
        return int(version), self._connection.total_changes

    def put_files(self, files: Iterable[FileRecord]) -> None:
        self.put_rows("files", map(astuple, files))

    def remove_files(self, paths: Iterable[str]) -> None:
        self._write("DELETE FROM files WHERE path = ?", [(path,) for path in paths])

    def count(self, status: str) -> int:
        statement = "SELECT count(*) FROM files WHERE status = ?"
        return int(self._query_files(statement, [status])[0][0])

    def tables(self) -> dict[str, TextTable]:
        """Tables of texts by path."""
        return {row[0]: TextTable(*row) for row in self._rows("tables")}

    def put_table(self, table: TextTable) -> None:
        self.put_rows("tables", [astuple(table)])

    def remove_table(self, path: str) -> None:
        self._write("DELETE FROM tables WHERE path = ?", [(path,)])

    def close(self) -> None:
        self._connection.close()

    def backup(self, file: Path) -> None:
        """Copy the database into a new file, as of one moment."""
        with self._lock, self._reporting_errors(), closing(open_file(file, "rwc")) as copy:
            copy_database(self._connection, copy)

    def check(self) -> None:
        """Raise if any record is damaged or lost."""
        for table in ("info", "roots", "tables", "files"):
            self._rows(table)
        [(line,)] = self._query("PRAGMA integrity_check(1)")
        if line != "ok":
            raise self._damaged(line)
        self._checked = True

    def _query(self, statement: str, values: list[Any] | None = None) -> list[Any]:
        with self._lock, self._reporting_errors():
            return self._connection.execute(statement, values or []).fetchall()

    def _query_files(self, statement: str, values: list[Any]) -> list[Any]:
        """Rows of a query of `files`, which is checked before the first one."""
        with self._lock:
            if not self._checked:
                self.check()
            return self._query(statement, values)

    def _rows(self, table: str) -> list[tuple[Any, ...]]:
        """All rows of a table without their checksums, which must be right."""
        with self._lock, self._reporting_errors(), reading(self._connection):
            rows = self._connection.execute(f"SELECT * FROM {table}").fetchall()
            total = read_total(self._connection, table)
        for *values, checksum in rows:
            if row_checksum(*values) != checksum:
                raise self._damaged(f"{values[0]!r} of {table}")
        if (len(rows), sum(row[-1] for row in rows)) != total:
            raise self._damaged(f"{table} ({len(rows):,} of {total[0]:,} rows)")
        return [row[:-1] for row in rows]

    def put_rows(self, table: str, rows: Iterable[tuple[Any, ...]]) -> None:
        """Insert or replace rows with their checksums."""
        values = [(*row, row_checksum(*row)) for row in rows]
        if values:
            marks = ", ".join("?" * len(values[0]))
            self._write(f"REPLACE INTO {table} VALUES ({marks})", values)

    def _write(self, statement: str, rows: Iterable[tuple[Any, ...]]) -> None:
        """Run a statement for every row, durably and all at once."""
        values = list(rows)  # computed outside the lock
        with self._transaction() as connection:
            connection.executemany(statement, values)

    @contextmanager
    def _transaction(self) -> Iterator[sqlite3.Connection]:
        with self._lock, self._reporting_errors():
            if self._connection.in_transaction:  # part of a larger one
                yield self._connection
            else:
                with transaction(self._connection) as connection:
                    yield connection

    @contextmanager
    def _reporting_errors(self) -> Iterator[None]:
        try:
            yield
        except DATABASE_ERRORS as error:
            damaged = any(word in str(error) for word in ("malformed", "not a database", "decode"))
            if damaged or isinstance(error, (sqlite3.IntegrityError, UnicodeDecodeError)):
                raise self._damaged(str(error)) from error
            raise IndexFileError(
                f"{self.folder / CATALOG_FILE}: {error}; check free space and permissions"
            ) from error

    def _damaged(self, what: str) -> DamagedError:
        return DamagedError(f"{self.folder / CATALOG_FILE} is damaged ({what}); {REPAIR}")
