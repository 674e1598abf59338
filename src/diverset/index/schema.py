"""Tables of `items.sqlite`, and the checksums of their rows.

Every row has a checksum of its content, and `totals` has the number of rows and the sum of their
checksums, so that changed, lost and reappearing rows are noticed. This module imports neither numpy
nor torch.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from diverset.errors import DamagedError
from diverset.index.filter_language import kind
from diverset.runtime.checksums import TOTALS, checksum, count_rows, row_checksum

FILE = "items.sqlite"
FORMAT = 3
REPAIR = "run diverset store verify --repair, or diverset verify --repair for a photo library"
CHANGES = "changes"  # counts the write transactions; has no checksum, since SQL increments it
TABLES = ("items", "sets", "fields", "removed", "segments")
SCHEMA = f"""
CREATE TABLE properties (key TEXT PRIMARY KEY, value TEXT NOT NULL, checksum INTEGER NOT NULL)
    WITHOUT ROWID;
CREATE TABLE items (row INTEGER PRIMARY KEY AUTOINCREMENT, id TEXT NOT NULL UNIQUE,
                    metadata TEXT NOT NULL, checksum INTEGER NOT NULL);
CREATE TABLE sets (row INTEGER PRIMARY KEY, data BLOB NOT NULL, checksum INTEGER NOT NULL);
CREATE TABLE fields (name TEXT NOT NULL, kind TEXT NOT NULL, value NOT NULL, row INTEGER NOT NULL,
                     checksum INTEGER NOT NULL, PRIMARY KEY (name, kind, value, row)) WITHOUT ROWID;
CREATE TABLE removed (row INTEGER PRIMARY KEY);
CREATE TABLE segments (first INTEGER PRIMARY KEY, last INTEGER NOT NULL, items INTEGER NOT NULL,
                       file TEXT NOT NULL, checksum INTEGER NOT NULL);
{TOTALS}
{count_rows("items")}
{count_rows("sets")}
{count_rows("fields")}
{count_rows("fields", name="'fields/' || ROW.name || '/' || ROW.kind")}
{count_rows("removed", column="row")}
{count_rows("segments")}
"""


def set_checksum(row: int, data: Any) -> int:
    """Of the set of an item, in the database and in segments; the row number is part of it."""
    return checksum(data, row & 0xFFFFFFFF)


def field_checksum(row: int, value: object) -> int:
    """Of a metadata field; SQLite stores booleans as 0 and 1."""
    return row_checksum(row, int(value) if isinstance(value, bool) else value)


def insert_item(connection: sqlite3.Connection, row: int, item: str, metadata: str) -> None:
    values = (row, item, metadata, row_checksum(row, item, metadata))
    connection.execute("INSERT INTO items VALUES (?, ?, ?, ?)", values)


def insert_set(connection: sqlite3.Connection, row: int, data: bytes) -> None:
    values = (row, data, set_checksum(row, data))
    connection.execute("INSERT INTO sets VALUES (?, ?, ?)", values)


def insert_fields(connection: sqlite3.Connection, row: int, metadata: Mapping[str, object]) -> None:
    """Insert the metadata of an item into the table that filters read."""
    connection.executemany(
        "INSERT INTO fields VALUES (?, ?, ?, ?, ?)",
        [
            (name, kind(value), value, row, field_checksum(row, value))
            for name, value in metadata.items()
            if value is not None
        ],
    )


def write_property(connection: sqlite3.Connection, key: str, value: object) -> None:
    text = json.dumps(value)
    row = (key, text, row_checksum(key, text))
    connection.execute("INSERT OR REPLACE INTO properties VALUES (?, ?, ?)", row)


def read_properties(connection: sqlite3.Connection, folder: Path) -> dict[str, Any]:
    """All properties; raises if one is damaged."""
    properties = {}
    for key, text, value in connection.execute("SELECT key, value, checksum FROM properties"):
        if key != CHANGES:
            if row_checksum(key, text) != value:
                raise DamagedError(f"{folder}: property {key!r} of {FILE} is damaged; {REPAIR}")
            properties[key] = json.loads(text)
    return properties
