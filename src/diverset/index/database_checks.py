"""Checks of tables that are too large to be checked on every read: each runs once per connection.

Rows that are read are checked by their own checksums. These checks find rows that are not read
because the table or its index is damaged.
"""

from __future__ import annotations

import sqlite3
from pathlib import Path

from diverset.errors import DamagedError, a_few
from diverset.index.filter_language import Filter, comparisons, kind
from diverset.index.schema import FILE, REPAIR, field_checksum
from diverset.runtime.checksums import read_total


class DatabaseChecks:
    """The checks of one connection, and which of them have passed."""

    def __init__(self, folder: Path, connection: sqlite3.Connection) -> None:
        self.folder, self.connection = folder, connection
        self._passed: set[str] = set()

    def total(self, name: str, count: int, checksum: int | None = None) -> None:
        """Raise unless a table has as many rows as recorded, with the same sum of checksums."""
        expected = read_total(self.connection, name)
        if count != expected[0] or checksum not in (None, expected[1]):
            raise DamagedError(
                f"{self.folder}: {name} in {FILE} is damaged: {count} rows, {expected[0]} were "
                f"stored; {REPAIR}"
            )

    def items(self) -> None:
        """The structure of the table of items: no row is lost."""
        if "items" not in self._passed:
            self._pragma("quick_check")
            statement = "SELECT count(*) FROM items NOT INDEXED"
            self.total("items", self.connection.execute(statement).fetchone()[0])
            self._passed.add("items")

    def ids(self) -> None:
        """The index over ids: an id that is not found does not exist."""
        self._pragma("integrity_check")

    def fields(self, tree: Filter) -> None:
        """The metadata fields that a filter compares."""
        self.items()
        self.field_totals()
        for comparison in comparisons(tree):
            self.field(comparison.field, kind(comparison.value))

    def field_totals(self) -> None:
        """The totals of single fields, which must add up to that of all fields."""
        count, value = self.connection.execute(
            "SELECT total(count), total(checksum) FROM totals WHERE name LIKE 'fields/%'"
        ).fetchone()
        self.total("fields", int(count), int(value))

    def field(self, name: str, kind: str) -> None:
        """The values of one kind of a metadata field."""
        label = f"fields/{name}/{kind}"
        if label in self._passed:
            return
        statement = "SELECT row, value, checksum FROM fields WHERE name = ? AND kind = ?"
        rows = self.connection.execute(statement, (name, kind)).fetchall()
        damaged = [row for row, value, stored in rows if field_checksum(row, value) != stored]
        if damaged:
            raise DamagedError(
                f"{self.folder}: field {name!r} of rows {a_few(damaged)} in {FILE} is damaged; "
                f"{REPAIR}"
            )
        self.total(label, len(rows), sum(stored for _, _, stored in rows))
        self._passed.add(label)

    def _pragma(self, name: str) -> None:
        if name not in self._passed:
            [(line,)] = self.connection.execute(f"PRAGMA {name}(items)").fetchmany(1)
            if line != "ok":
                raise DamagedError(f"{self.folder}: {FILE} is damaged ({line}); {REPAIR}")
            self._passed.add(name)
