"""The SQLite file of an index: ids, metadata and sets.

Every item has a row number that is never reused, not even when the item is replaced; segments and
graphs refer to items by it. `changes` counts the write transactions, so a reader can tell whether
what it derived from the database is still current. Every row that is read is compared with its
checksum.
"""

from __future__ import annotations

import json
import os
import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import fields
from pathlib import Path

import numpy as np
from jaxtyping import Int64

from diverset.errors import DamagedError, IndexFileError, a_few, check_count
from diverset.index.database_checks import DatabaseChecks
from diverset.index.database_errors import (
    StaleReadError,
    no_index,
    other_format,
    translate_errors,
)
from diverset.index.filter_language import Filter
from diverset.index.filter_sql import to_sql
from diverset.index.quick_checks import FORMAT_1_FILE, HAS_PROPERTIES, holds_index
from diverset.index.schema import (
    CHANGES,
    FILE,
    FORMAT,
    REPAIR,
    SCHEMA,
    insert_fields,
    insert_item,
    insert_set,
    read_properties,
    set_checksum,
    write_property,
)
from diverset.index.set_store import IndexSettings, Records, Scalar, Sets
from diverset.runtime.checksums import (
    expected_schema,
    read_total,
    row_checksum,
    stored_schema,
)
from diverset.runtime.close_on_error import close_on_error
from diverset.runtime.sqlite import (
    Connection,
    FileStamp,
    connect,
    file_stamp,
    make_durable,
    open_file,
    transaction,
)

BATCH = 4096  # sets read at once
LAST_ROW = 2**62  # larger than any row number
CACHED_ITEMS = 2**14  # ids and metadata of this many hits are kept in memory
SELECT_ITEMS = (
    "SELECT row, id, metadata, items.checksum, data, sets.checksum "
    "FROM items LEFT JOIN sets USING (row)"
)
# Row numbers are not reused even if one of these tables has lost rows.
LAST_USED_ROW = """
SELECT max(coalesce((SELECT max(seq) FROM sqlite_sequence), 0),
           coalesce((SELECT max(row) FROM items), 0), coalesce((SELECT max(row) FROM sets), 0),
           coalesce((SELECT max(row) FROM removed), 0),
           coalesce((SELECT max(last) FROM segments), 0))
"""


class ItemDatabase:
    """A connection to the file, made by `ItemDatabase.create` and `ItemDatabase.open`."""

    def __init__(
        self,
        folder: Path,
        connection: Connection,
        settings: IndexSettings,
        stamp: FileStamp | None = None,
    ) -> None:
        self.folder, self.connection, self.settings = folder, connection, settings
        self._stamp = stamp  # of a file that is read without locks
        self._cache: dict[int, tuple[str, dict[str, Scalar]]] = {}
        self.checks = DatabaseChecks(folder, connection)

    @classmethod
    def create(cls, folder: Path, settings: IndexSettings) -> ItemDatabase:
        """Create the file in a folder without an index; replaces what a killed `create` left."""
        if holds_index(folder):
            raise IndexFileError(f"{folder} already holds an index; open it, or give another name")
        with translate_errors(folder):
            folder.mkdir(parents=True, exist_ok=True)
            with close_on_error(open_file(folder / FILE, "rwc")) as connection:
                connection.execute("PRAGMA auto_vacuum = INCREMENTAL")  # before the first table
                make_durable(connection)
                connection.executescript(f"BEGIN IMMEDIATE; {SCHEMA}")
                for key, value in {"format": FORMAT, CHANGES: 0, **vars(settings)}.items():
                    write_property(connection, key, value)
                connection.execute("COMMIT")
        return cls(folder, connection, settings)

    @classmethod
    def open(cls, folder: Path) -> ItemDatabase:
        """Open the file for reading, and for writing if the folder is writable."""
        if (folder / FORMAT_1_FILE).exists():
            raise other_format(folder, 1)
        if not (folder / FILE).exists():
            raise no_index(folder)
        with translate_errors(folder):
            connection, stamp = connect(folder / FILE)
            with close_on_error(connection):
                if not connection.execute(HAS_PROPERTIES).fetchone():
                    raise no_index(folder)
                settings = _read_settings(connection, folder)
                if os.access(folder, os.W_OK):
                    make_durable(connection)
                return cls(folder, connection, settings, stamp)

    def refresh(self) -> None:
        """Reopen a file that is read without locks if it has been written to."""
        if self._is_stale():
            self.connection.close()
            self.connection, self._stamp = connect(self.folder / FILE)
            self._cache.clear()  # it may be a different index now
            self.checks = DatabaseChecks(self.folder, self.connection)

    def _is_stale(self) -> bool:
        return self._stamp is not None and self._stamp != file_stamp(self.folder / FILE)

    def close(self) -> None:
        self._stamp = None
        self.connection.close()

    @contextmanager
    def writing(self, wait: bool = True) -> Iterator[sqlite3.Connection]:
        """A write transaction, on disk when it ends; `wait=False` fails if another one runs."""
        with translate_errors(self.folder), transaction(self.connection, wait) as connection:
            yield connection
            connection.execute("UPDATE properties SET value = value + 1 WHERE key = 'changes'")

    @contextmanager
    def reading(self) -> Iterator[sqlite3.Connection]:
        """A consistent view of one state, whatever is written meanwhile.

        Raises `StaleReadError` if the file is read without locks and was written to meanwhile.
        """
        with translate_errors(self.folder):
            self.connection.execute("BEGIN")
            try:
                yield self.connection
            except Exception as error:
                self._check_current(error)
                raise
            finally:
                if self.connection.in_transaction:
                    self.connection.execute("ROLLBACK")
            self._check_current(None)

    def _check_current(self, cause: Exception | None) -> None:
        if self._is_stale():
            raise StaleReadError(
                f"{self.folder} was written to during the call; repeat the call"
            ) from cause

    def changes(self) -> int:
        """Number of write transactions so far."""
        query = "SELECT value FROM properties WHERE key = 'changes'"
        row = self.connection.execute(query).fetchone()
        if row is None or not str(row[0]).isdecimal():
            raise DamagedError(f"{self.folder}: property 'changes' of {FILE} is damaged; {REPAIR}")
        return int(row[0])

    def add(self, items: Records) -> None:
        """Add items, replacing those with the same ids."""
        with self.writing() as connection:
            self._remove(connection, items.ids)
            (last,) = connection.execute(LAST_USED_ROW).fetchone()
            rows = range(last + 1, last + 1 + len(items.ids))
            for row, item, metadata in zip(rows, items.ids, items.metadata, strict=True):
                insert_item(connection, row, item, json.dumps(dict(metadata), ensure_ascii=False))
            for row, elements, metadata in zip(rows, items.sets, items.metadata, strict=True):
                insert_set(connection, row, elements.astype("<f4").tobytes())
                insert_fields(connection, row, metadata)

    def fields(self) -> list[tuple[str, str]]:
        """Names of metadata fields, each with the kinds of its values."""
        self.checks.field_totals()
        names = self._select("SELECT name FROM totals WHERE name LIKE 'fields/%' AND count > 0")
        pairs = (name.removeprefix("fields/").rpartition("/") for (name,) in names)
        return sorted((name, kind) for name, _, kind in pairs)

    def delete(self, ids: Sequence[str]) -> int:
        """Delete items; returns how many existed."""
        with self.writing() as connection:
            return self._remove(connection, ids)

    def _remove(self, connection: sqlite3.Connection, ids: Sequence[str]) -> int:
        select = "SELECT row FROM items WHERE id = ?"
        rows = [row for item in ids for row in connection.execute(select, (item,))]
        if len(rows) < len(ids) and self.item_count():
            self.checks.ids()  # the others are unknown, not lost
        connection.executemany("INSERT INTO removed VALUES (?)", rows)
        connection.executemany("DELETE FROM items WHERE row = ?", rows)
        connection.executemany("DELETE FROM sets WHERE row = ?", rows)
        return len(rows)

    def item_count(self) -> int:
        """The recorded number of items."""
        return read_total(self.connection, "items")[0]

    def count(self, filter: Filter | None = None) -> int:
        if filter is not None:
            return len(self.rows(filter))
        [(count,)] = self._select("SELECT count(*) FROM items")
        self.checks.total("items", count)
        return int(count)

    def rows(self, filter: Filter) -> Int64[np.ndarray, " rows"]:
        """Row numbers of the items that match a filter."""
        self.checks.fields(filter)
        condition, values = to_sql(filter)
        return self._select_rows(f"SELECT row FROM items WHERE {condition} ORDER BY row", values)

    def ids(self, filter: Filter | None = None) -> list[str]:
        """Ids of the items that match a filter, in the order of their rows."""
        self.checks.items() if filter is None else self.checks.fields(filter)
        condition, values = ("1", []) if filter is None else to_sql(filter)
        return [item for _, item, _ in self._items(f"{condition} ORDER BY row", values)]

    def removed(self) -> Int64[np.ndarray, " rows"]:
        """Row numbers of deleted items that segments may still contain."""
        rows = self._select_rows("SELECT row FROM removed ORDER BY row")
        self.checks.total("removed", len(rows), int(rows.sum()))
        return rows

    def rows_from(self, first: int) -> Int64[np.ndarray, " rows"]:
        """Row numbers of the items, from `first` on."""
        return self._select_rows("SELECT row FROM items WHERE row >= ? ORDER BY row", [first])

    def sets(
        self, first: int = 0, last: int = LAST_ROW
    ) -> Iterator[tuple[Int64[np.ndarray, " rows"], Sets]]:
        """Row numbers and sets of a range of rows, ascending, in batches; the last may be empty."""
        statement = (
            "SELECT row, data, checksum FROM sets WHERE row BETWEEN ? AND ? ORDER BY row LIMIT ?"
        )
        while True:
            batch = self._select(statement, [first, last, BATCH]).fetchall()
            rows = [row for row, *_ in batch]
            yield np.array(rows, dtype=np.int64), self._decode(batch)
            if len(batch) < BATCH:
                return
            first = rows[-1] + 1

    def ids_and_metadata(self, rows: Sequence[int]) -> list[tuple[str, dict[str, Scalar]]]:
        """Ids and metadata by row number; callers must not modify the metadata.

        They are cached: a row number always refers to the same item.
        """
        cache, missing = self._cache, set(rows).difference(self._cache)
        if len(cache) + len(missing) > CACHED_ITEMS:
            cache.clear()
            missing = set(rows)
        if missing:
            chosen = "row IN (SELECT value FROM json_each(?))"
            for row, item, text in self._items(chosen, [json.dumps(list(missing))]):
                cache[row] = (item, json.loads(text) if text != "{}" else {})
        if lost := missing.difference(cache):
            raise DamagedError(
                f"{self.folder}: rows {a_few(sorted(lost))} of items in {FILE} are lost; {REPAIR}"
            )
        return [cache[row] for row in rows]

    def get(self, ids: Sequence[str]) -> Records:
        """Items by id, in this order; unknown ids are skipped."""
        statement = f"{SELECT_ITEMS} WHERE id = ?"
        rows = [row for item in ids for row in self._select(statement, [item])]
        if len(rows) < len(ids):
            self.checks.ids()  # the others are unknown, not lost
        return self._records(rows)

    def walk(self, size: int) -> Iterator[Records]:
        check_count("size", size)
        self.checks.ids()
        statement, after = f"{SELECT_ITEMS} WHERE id > ? ORDER BY id LIMIT ?", ""
        while batch := self._select(statement, [after, size]).fetchall():
            records = self._records(batch)
            yield records
            after = records.ids[-1]

    def _select(self, statement: str, values: Sequence[object] = ()) -> sqlite3.Cursor:
        return self.connection.execute(statement, list(values))

    def _select_rows(
        self, statement: str, values: Sequence[object] = ()
    ) -> Int64[np.ndarray, " rows"]:
        return np.fromiter((row for (row,) in self._select(statement, values)), dtype=np.int64)

    def _items(self, condition: str, values: Sequence[object]) -> Iterator[tuple[int, str, str]]:
        """Row numbers, ids and metadata; raises if one is damaged."""
        statement = f"SELECT row, id, metadata, checksum FROM items WHERE {condition}"
        for row in self._select(statement, values):
            yield self._check_item(*row)

    def _records(self, rows: Sequence[tuple[int, str, str, int, bytes | None, int]]) -> Records:
        """Rows of `SELECT_ITEMS` as items; raises if one is damaged or has no set."""
        for row in rows:
            self._check_item(*row[:4])
        sets = self._decode([(row[0], *row[4:]) for row in rows])
        metadata = [json.loads(text) for _, _, text, *_ in rows]
        return Records([item for _, item, *_ in rows], sets, metadata)

    def _check_item(self, row: int, item: str, text: str, value: int) -> tuple[int, str, str]:
        if row_checksum(row, item, text) != value:
            raise DamagedError(
                f"{self.folder}: item {item!r} (row {row}) in {FILE} is damaged; {REPAIR}"
            )
        return row, item, text

    def _decode(self, stored: Sequence[tuple[int, bytes | None, int]]) -> Sets:
        """Sets of rows with their checksums; raises if one is damaged."""
        damaged = [row for row, data, value in stored if not self.is_intact(row, data, value)]
        if damaged:
            raise DamagedError(
                f"{self.folder}: the sets of rows {a_few(damaged)} in {FILE} are damaged; {REPAIR}"
            )
        data = bytearray().join(blob for _, blob, _ in stored if blob)  # writable, as torch needs
        shape = (len(stored), self.settings.elements, self.settings.dim)
        return np.frombuffer(data, dtype="<f4").reshape(shape)

    def is_intact(self, row: int, data: object, value: int) -> bool:
        """Whether a stored set has the right size and checksum."""
        size = 4 * self.settings.elements * self.settings.dim
        return isinstance(data, bytes) and len(data) == size and set_checksum(row, data) == value


def _read_settings(connection: sqlite3.Connection, folder: Path) -> IndexSettings:
    """The settings of an index of this format, whose tables and properties are intact."""
    row = connection.execute("SELECT value FROM properties WHERE key = 'format'").fetchone()
    if row is not None and row[0] != str(FORMAT):
        raise other_format(folder, row[0])
    properties = read_properties(connection, folder)
    names = [field.name for field in fields(IndexSettings)]
    lost = [name for name in ("format", *names) if name not in properties]
    if lost or stored_schema(connection) != expected_schema(SCHEMA):
        what = f"properties {a_few(lost)} are lost" if lost else "the schema is damaged"
        raise DamagedError(f"{folder}: {what} in {FILE}; {REPAIR}")
    return IndexSettings(**{name: properties[name] for name in names})
