"""A new item database from everything that is intact in a damaged one.

Items are kept if their id and metadata pass their checksum, and their set does so too in the
database or in any segment. A row number never refers to another item, so a copy of a set in any
segment is right if its checksum is.
"""

from __future__ import annotations

import json
import shutil
import sqlite3
from collections.abc import Iterator
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

import numpy as np
from safetensors import SafetensorError
from safetensors.torch import load_file

from diverset.errors import IndexFileError
from diverset.index.block_checks import set_checksums
from diverset.index.item_database import ItemDatabase
from diverset.index.schema import (
    CHANGES,
    FILE,
    insert_fields,
    insert_item,
    insert_set,
    read_properties,
    write_property,
)
from diverset.index.segments import SUFFIX
from diverset.index.set_store import IndexSettings
from diverset.runtime.checksums import row_checksum
from diverset.runtime.sqlite import DATABASE_ERRORS, connect, overwrite

TEMPORARY = "repair.part"
SPAN = 1024  # rows read at once
UNKNOWN_ROWS = 2**20  # rows that are searched beyond the last one that two sources agree on
LAST_ROWS = (
    "SELECT max(seq) FROM sqlite_sequence",
    "SELECT max(row) FROM items",
    "SELECT max(row) FROM sets",
    "SELECT max(last) FROM segments",
)


def salvage(folder: Path, settings: IndexSettings) -> tuple[int, int]:
    """Rewrite `items.sqlite` with all intact items and no segments.

    Returns the number of items that were kept, and of those that were found but damaged.
    """
    shutil.rmtree(folder / TEMPORARY, ignore_errors=True)  # of a repair that was interrupted
    connection, _ = connect(folder / FILE)
    with (
        closing(connection),
        closing(ItemDatabase.create(folder / TEMPORARY, settings)) as new,
    ):
        with new.writing() as target:
            counts = _copy(connection, folder, new, target)
            _copy_properties(connection, folder, target)
    overwrite(folder / FILE, folder / TEMPORARY / FILE)
    shutil.rmtree(folder / TEMPORARY)
    return counts


def intact_copies(folder: Path, settings: IndexSettings, rows: set[int]) -> dict[int, bytes]:
    """Sets of these rows in segment files that pass their checksums."""
    copies: dict[int, bytes] = {}
    shape = (settings.elements, settings.dim)
    for file in sorted(folder.glob(f"*{SUFFIX}")):
        with suppress(OSError, SafetensorError, KeyError, RuntimeError, ValueError):
            tensors = load_file(file)
            numbers, sets = tensors["rows"].numpy(), tensors["sets"].numpy()
            if sets.shape != (len(numbers), *shape) or sets.dtype != np.float32:
                continue
            [chosen] = np.isin(numbers, list(rows)).nonzero()
            valid = set_checksums(numbers[chosen], sets, chosen)
            valid = valid == tensors["set_checksums"].numpy()[chosen]
            for position in chosen[valid].tolist():
                copies[int(numbers[position])] = sets[position].astype("<f4").tobytes()
    return copies


def _copy(
    source: sqlite3.Connection, folder: Path, new: ItemDatabase, target: sqlite3.Connection
) -> tuple[int, int]:
    """Insert intact items with their row numbers; returns how many are kept and damaged."""
    last = _last_row(source, folder)
    items: dict[int, tuple[str, str]] = {}
    damaged, kept = set(), set()
    statement = "SELECT row, id, metadata, checksum FROM items WHERE row BETWEEN ? AND ?"
    for row, item, text, value in _readable(source, statement, 0, last):
        if row_checksum(row, item, text) == value:
            items[row] = (item, text)
        else:
            damaged.add(row)
    statement = "SELECT row, data, checksum FROM sets WHERE row BETWEEN ? AND ?"
    for row, data, value in _readable(source, statement, 0, last):
        if row in items and new.is_intact(row, data, value):
            insert_set(target, row, data)
            kept.add(row)
    for row, data in intact_copies(folder, new.settings, items.keys() - kept).items():
        insert_set(target, row, data)
        kept.add(row)
    for row in sorted(kept):
        insert_item(target, row, *items[row])
        insert_fields(target, row, json.loads(items[row][1]))
    # Graphs and readers know the old row numbers: new items get later ones.
    target.execute("UPDATE sqlite_sequence SET seq = ? WHERE name = 'items'", (last,))
    return len(kept), len(damaged | items.keys() - kept)


def _copy_properties(source: sqlite3.Connection, folder: Path, target: sqlite3.Connection) -> None:
    """Keep the plan of approximate search if it is intact; readers must notice the change."""
    plan = None
    with suppress(*DATABASE_ERRORS, IndexFileError, ValueError):
        plan = read_properties(source, folder).get("plan")
    if plan is not None:
        write_property(target, "plan", plan)
    write_property(target, CHANGES, int.from_bytes(np.random.default_rng().bytes(5)))


def _last_row(source: sqlite3.Connection, folder: Path) -> int:
    """An upper bound of the row numbers, from several sources since each may be damaged."""
    found = [0, 0]
    for statement in LAST_ROWS:
        with suppress(*DATABASE_ERRORS, TypeError, ValueError):
            found.append(int(source.execute(statement).fetchone()[0]))
    for file in folder.glob(f"*{SUFFIX}"):
        with suppress(ValueError, IndexError):
            found.append(int(file.name.split("-")[1]))
    second, first = sorted(found)[-2:]
    return min(first, second + UNKNOWN_ROWS)


def _readable(
    source: sqlite3.Connection, statement: str, first: int, last: int
) -> Iterator[tuple[Any, ...]]:
    """Rows of a table, without those on pages that cannot be read: by bisection."""
    with suppress(*DATABASE_ERRORS, OverflowError):
        if last - first < SPAN:
            yield from source.execute(statement, (first, last)).fetchall()
            return
    if first < last:
        middle = (first + last) // 2
        yield from _readable(source, statement, first, middle)
        yield from _readable(source, statement, middle + 1, last)
