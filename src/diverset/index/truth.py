"""The truth of an index: ids, metadata and sets in one SQLite file.

Every item has a row number that is never used again, not even when the item is replaced; whatever
is derived from the truth names items by it. `changes` counts the transactions, so that a reader
sees in one number whether what it derived is still true. It does not know codes, nor similarity;
errors of SQLite pass through it, and `reporting` puts them into words.
"""

from __future__ import annotations

import json
import os
import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import fields
from pathlib import Path

import numpy as np
from jaxtyping import Int64

from diverset.databases import PATIENCE, Stamp, connect, make_durable, open_file, stamp_of
from diverset.errors import IndexFileError, OptionError
from diverset.index.base import Metadata, Records, Scalar, Sets, Settings
from diverset.index.filters import to_sql
from diverset.index.where import kind, parse

FILE = "truth.sqlite"
FORMAT = 1
AT_ONCE = 500  # row numbers in one statement
NAMED = 2**14  # items whose ids and metadata are kept in memory once they were found
ABOUT = "SELECT 1 FROM sqlite_master WHERE type = 'table' AND name = 'about'"
SCHEMA = """
CREATE TABLE about (key TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;
CREATE TABLE items (row INTEGER PRIMARY KEY AUTOINCREMENT, id TEXT NOT NULL UNIQUE,
                    metadata TEXT NOT NULL);
CREATE TABLE sets (row INTEGER PRIMARY KEY, data BLOB NOT NULL);
CREATE TABLE fields (name TEXT NOT NULL, kind TEXT NOT NULL, value NOT NULL, row INTEGER NOT NULL,
                     PRIMARY KEY (name, kind, value, row)) WITHOUT ROWID;
CREATE TABLE removed (row INTEGER PRIMARY KEY);
CREATE TABLE segments (first INTEGER PRIMARY KEY, last INTEGER NOT NULL, items INTEGER NOT NULL,
                       file TEXT NOT NULL);
"""


class Outdated(IndexFileError):
    """What was being read is gone; asked again, the call sees what is there now."""


class Truth:
    """A connection to the file; `Truth.create` and `Truth.open` make one."""

    def __init__(
        self,
        folder: Path,
        connection: sqlite3.Connection,
        settings: Settings,
        stamp: Stamp | None = None,
    ) -> None:
        self.folder, self.connection, self.settings = folder, connection, settings
        self._stamp = stamp  # of a file that is read without locks
        self._named: dict[int, tuple[str, dict[str, Scalar]]] = {}

    @classmethod
    def create(cls, folder: Path, settings: Settings) -> Truth:
        """Make the file in a folder that has none, or one that a killed `create` left."""
        if holds_index(folder):
            raise IndexFileError(f"{folder} already holds an index; open it, or give another name")
        with reporting(folder):
            folder.mkdir(parents=True, exist_ok=True)
            connection = open_file(folder / FILE, "rwc")
            try:
                connection.execute("PRAGMA auto_vacuum = INCREMENTAL")  # in an old file, a write
                make_durable(connection)
                about = {"format": FORMAT, "changes": 0, **vars(settings)}
                connection.executescript(f"BEGIN IMMEDIATE; {SCHEMA}")
                pairs = [(key, json.dumps(value)) for key, value in about.items()]
                connection.executemany("INSERT INTO about VALUES (?, ?)", pairs)
                connection.execute("COMMIT")
            except BaseException:
                connection.close()
                raise
        return cls(folder, connection, settings)

    @classmethod
    def open(cls, folder: Path) -> Truth:
        """Open the file for reading, and for writing if the folder allows it."""
        if not (folder / FILE).exists():
            raise _no_index(folder)
        with reporting(folder):
            connection, stamp = connect(folder / FILE)
            try:
                if not connection.execute(ABOUT).fetchone():
                    raise _no_index(folder)
                stored = dict(connection.execute("SELECT key, value FROM about"))
                about = {key: json.loads(value) for key, value in stored.items()}
                if about["format"] != FORMAT:
                    raise IndexFileError(
                        f"{folder} has format {about['format']}, this diverset reads {FORMAT}; "
                        "install the version of diverset that wrote it, or newer"
                    )
                if os.access(folder, os.W_OK):
                    make_durable(connection)
                settings = {field.name: about[field.name] for field in fields(Settings)}
                return cls(folder, connection, Settings(**settings), stamp)
            except BaseException:
                connection.close()
                raise

    def refresh(self) -> None:
        """Look at the file anew, if it is read without locks and somebody wrote to it."""
        if self._outdated():
            self.connection.close()
            self.connection, self._stamp = connect(self.folder / FILE)
            self._named.clear()  # by now it may be another index

    def _outdated(self) -> bool:
        return self._stamp is not None and self._stamp != stamp_of(self.folder / FILE)

    def close(self) -> None:
        self._stamp = None
        self.connection.close()

    @contextmanager
    def writing(self, wait: bool = True) -> Iterator[sqlite3.Connection]:
        """A transaction: all of it or nothing, and on disk when it ends."""
        with reporting(self.folder):
            self.connection.execute(f"PRAGMA busy_timeout = {int(1000 * PATIENCE * wait)}")
            try:
                self.connection.execute("BEGIN IMMEDIATE")
            finally:
                self.connection.execute(f"PRAGMA busy_timeout = {int(1000 * PATIENCE)}")
            try:
                yield self.connection
                self.connection.execute("UPDATE about SET value = value + 1 WHERE key = 'changes'")
                self.connection.execute("COMMIT")
            except BaseException:
                if self.connection.in_transaction:
                    self.connection.execute("ROLLBACK")
                raise

    @contextmanager
    def reading(self) -> Iterator[sqlite3.Connection]:
        """A view of one moment, whatever is written meanwhile.

        Raises `Outdated` where the file is read without locks and was written to meanwhile.
        """
        with reporting(self.folder):
            self.connection.execute("BEGIN")
            try:
                yield self.connection
            except Exception as error:
                self._check_moment(error)
                raise
            finally:
                if self.connection.in_transaction:
                    self.connection.execute("ROLLBACK")
            self._check_moment(None)

    def _check_moment(self, cause: Exception | None) -> None:
        if self._outdated():
            raise Outdated(f"{self.folder} was written to meanwhile; repeat the call") from cause

    def changes(self) -> int:
        """How many transactions there have been."""
        row = self.connection.execute("SELECT value FROM about WHERE key = 'changes'").fetchone()
        return int(row[0])

    def add(self, ids: Sequence[str], sets: Sets, metadata: Sequence[Metadata]) -> None:
        """Store items, replacing those with the same ids."""
        with self.writing() as connection:
            self._remove(connection, ids)
            (last,) = connection.execute("SELECT max(seq) FROM sqlite_sequence").fetchone()
            rows = range((last or 0) + 1, (last or 0) + 1 + len(ids))
            texts = (json.dumps(dict(one), ensure_ascii=False) for one in metadata)
            connection.executemany(
                "INSERT INTO items VALUES (?, ?, ?)", zip(rows, ids, texts, strict=True)
            )
            blobs = (one.astype("<f4").tobytes() for one in sets)
            connection.executemany("INSERT INTO sets VALUES (?, ?)", zip(rows, blobs, strict=True))
            fields = (
                (name, kind(value), value, row)
                for row, one in zip(rows, metadata, strict=True)
                for name, value in one.items()
                if value is not None
            )
            connection.executemany("INSERT INTO fields VALUES (?, ?, ?, ?)", fields)

    def fields(self) -> list[tuple[str, str]]:
        """Names and kinds of metadata, each found by one step through the index of the table."""
        found: list[tuple[str, str]] = []
        step = (
            "SELECT name, kind FROM fields WHERE (name, kind) > (?, ?) ORDER BY name, kind LIMIT 1"
        )
        while row := self.connection.execute(step, found[-1] if found else ("", "")).fetchone():
            found.append(row)
        return found

    def delete(self, ids: Sequence[str]) -> int:
        """Remove items; says how many were there."""
        with self.writing() as connection:
            return self._remove(connection, ids)

    def _remove(self, connection: sqlite3.Connection, ids: Sequence[str]) -> int:
        found = []
        for one in ids:
            found += connection.execute("SELECT row FROM items WHERE id = ?", (one,)).fetchall()
        connection.executemany("INSERT INTO removed VALUES (?)", found)
        connection.executemany("DELETE FROM items WHERE row = ?", found)
        connection.executemany("DELETE FROM sets WHERE row = ?", found)
        return len(found)

    def count(self, where: str | None = None) -> int:
        condition, values = _condition(where)
        found = self._select(f"SELECT count(*) FROM items WHERE {condition}", values)
        return int(next(found)[0])

    def rows(self, where: str) -> Int64[np.ndarray, " rows"]:
        """Row numbers of the items that pass a filter."""
        condition, values = _condition(where)
        found = self._select(f"SELECT row FROM items WHERE {condition} ORDER BY row", values)
        return np.fromiter((row for (row,) in found), dtype=np.int64)

    def removed(self) -> Int64[np.ndarray, " rows"]:
        """Row numbers that scan files may still hold and the truth does not."""
        found = self._select("SELECT row FROM removed ORDER BY row", [])
        return np.fromiter((row for (row,) in found), dtype=np.int64)

    def rows_from(self, first: int) -> Int64[np.ndarray, " rows"]:
        """Row numbers of the items that have this one or a later one."""
        found = self._select("SELECT row FROM items WHERE row >= ? ORDER BY row", [first])
        return np.fromiter((row for (row,) in found), dtype=np.int64)

    def stored_from(self, first: int) -> int:
        """How many items have this row number or a later one."""
        return int(next(self._select("SELECT count(*) FROM sets WHERE row >= ?", [first]))[0])

    def sets(self, first: int, last: int, most: int) -> tuple[Int64[np.ndarray, " rows"], Sets]:
        """Row numbers and sets of a range of rows, ascending."""
        found = self._select(
            "SELECT row, data FROM sets WHERE row BETWEEN ? AND ? ORDER BY row LIMIT ?",
            [first, last, most],
        )
        rows, blobs = [], []
        for row, blob in found:
            rows.append(row)
            blobs.append(blob)
        return np.array(rows, dtype=np.int64), self._decode(rows, blobs)

    def names(self, rows: Sequence[int]) -> list[tuple[str, dict[str, Scalar]]]:
        """Ids and metadata of items by their row numbers, the latter to be changed by nobody.

        They are kept for later: a row number never stands for anything else.
        """
        known = self._named
        try:
            return [known[row] for row in rows]
        except KeyError:
            missing = set(rows).difference(known)
        if len(known) + len(missing) > NAMED:
            known.clear()
            missing = set(rows)
        ordered = sorted(missing)
        for start in range(0, len(ordered), AT_ONCE):
            some = ordered[start : start + AT_ONCE]
            marks = ", ".join("?" * len(some))
            for row, one, text in self._select(
                f"SELECT row, id, metadata FROM items WHERE row IN ({marks})", some
            ):
                known[row] = (one, json.loads(text) if text != "{}" else {})
        return [known[row] for row in rows]

    def get(self, ids: Sequence[str]) -> Records:
        """Those of some items that are there, in the order asked for."""
        found = [
            (one, *row)
            for one in ids
            for row in self._select(
                "SELECT row, metadata, data FROM items JOIN sets USING (row) WHERE id = ?", [one]
            )
        ]
        sets = self._decode([one[1] for one in found], [one[3] for one in found])
        return Records([one[0] for one in found], sets, [json.loads(one[2]) for one in found])

    def walk(self, size: int) -> Iterator[Records]:
        if size < 1:
            raise OptionError(f"size is {size}; give at least 1")
        after = ""
        while True:
            found = self._select(
                "SELECT row, id, metadata, data FROM items LEFT JOIN sets USING (row) "
                "WHERE id > ? ORDER BY id LIMIT ?",
                [after, size],
            ).fetchall()
            if not found:
                return
            rows, ids, texts, blobs = zip(*found, strict=True)
            sets = self._decode(rows, [blob or b"" for blob in blobs])
            yield Records(list(ids), sets, [json.loads(text) for text in texts])
            after = ids[-1]

    def _select(self, statement: str, values: Sequence[object]) -> sqlite3.Cursor:
        return self.connection.execute(statement, list(values))

    def _decode(self, rows: Sequence[int], blobs: Sequence[bytes]) -> Sets:
        shape = (self.settings.slots, self.settings.dim)
        for row, blob in zip(rows, blobs, strict=True):
            if len(blob) != 4 * shape[0] * shape[1]:
                raise IndexFileError(
                    f"{self.folder} holds {len(blob)} bytes in row {row}, not the "
                    f"{4 * shape[0] * shape[1]} of a set; restore {FILE} from a copy"
                )
        data = bytearray().join(blobs)  # writable, as torch wants it
        return np.frombuffer(data, dtype="<f4").reshape(len(blobs), *shape)


def _condition(where: str | None) -> tuple[str, Sequence[object]]:
    return to_sql(parse(where)) if where is not None else ("1", [])


def holds_index(folder: Path) -> bool:
    """Whether there is an index, be it damaged; what a killed `create` leaves is none."""
    if not (folder / FILE).exists():
        return False
    try:
        connection, _ = connect(folder / FILE)
        with closing(connection):
            return connection.execute(ABOUT).fetchone() is not None
    except sqlite3.DatabaseError:
        return True  # opening it says what is wrong


def _no_index(folder: Path) -> IndexFileError:
    return IndexFileError(
        f"{folder} holds no index; check the path, or make one by SetIndex.create, "
        "diverset index add-shards or diverset index copy"
    )


@contextmanager
def reporting(folder: Path) -> Iterator[None]:
    """Failures of the file system and of SQLite, in words that say what to do."""
    try:
        yield
    except sqlite3.DatabaseError as error:
        raise IndexFileError(f"{folder}: {error}; {_next_step(str(error))}") from error
    except OSError as error:
        raise IndexFileError(
            f"{folder}: {error.strerror}; check its path, its permissions and the free space"
        ) from error


def _next_step(said: str) -> str:
    for words, step in {
        "full": "nothing of this call was stored: free some space and repeat it",
        "disk I/O": "check the disk and its free space, then run diverset index verify",
        "readonly": "the folder can only be read: copy it to where you may write",
        "read-only": "the folder can only be read: copy it to where you may write",
        "unable to open": "check its permissions",
        "already exists": "another process made it at the same time: open it",
        "closed": "open the index again",
        "malformed": f"{FILE} is damaged: restore it from a copy",
        "not a database": f"{FILE} is damaged or no index: restore it from a copy",
        "locked": f"another process has been writing for {PATIENCE:.0f} seconds: wait and repeat",
    }.items():
        if words in said:
            return step
    return "run diverset index verify"
