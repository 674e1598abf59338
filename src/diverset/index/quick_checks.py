"""Checks of the files of an index that take milliseconds, for commands that do not search.

This module imports neither numpy nor torch.
"""

from __future__ import annotations

import json
from contextlib import closing
from pathlib import Path
from typing import Any

from diverset.errors import DamagedError
from diverset.index.schema import FILE, REPAIR, SCHEMA
from diverset.runtime.checksums import expected_schema, stored_schema
from diverset.runtime.sqlite import DATABASE_ERRORS, connect

FORMAT_1_FILE = "truth.sqlite"
HAS_PROPERTIES = "SELECT 1 FROM sqlite_master WHERE type = 'table' AND name = 'properties'"
MAX_HEADER = 100 * 2**20  # bytes; the limit of safetensors


def holds_index(folder: Path) -> bool:
    """Whether there is an index, even a damaged one; not what a killed `create` leaves."""
    if (folder / FORMAT_1_FILE).exists():
        return True
    if not (folder / FILE).exists():
        return False
    try:
        return bool(_query(folder, HAS_PROPERTIES))
    except DamagedError:
        return True  # opening it reports what is wrong


def database_problem(folder: Path) -> str | None:
    """Why the database of an index cannot be read; None if it can."""
    file = folder / FILE
    if not file.is_file():
        return f"{file} is missing"
    try:
        connection, _ = connect(file)
        with closing(connection):
            if stored_schema(connection) != expected_schema(SCHEMA):
                return f"{file} is damaged"
            for table in ("totals", "segments"):
                connection.execute(f"SELECT * FROM {table}").fetchall()
    except DATABASE_ERRORS as error:
        return f"{file} is damaged ({error})"
    return None


def item_count(folder: Path) -> int:
    """The recorded number of items."""
    [(count,)] = _query(folder, "SELECT coalesce(max(count), 0) FROM totals WHERE name = 'items'")
    return count if isinstance(count, int) else -1  # damaged: agrees with nothing


def segment_problems(folder: Path) -> list[str]:
    """Segment files that are missing or truncated."""
    files = [folder / str(name) for (name,) in _query(folder, "SELECT file FROM segments")]
    return [f"{file} is missing or truncated" for file in files if not _is_whole(file)]


def _query(folder: Path, statement: str) -> list[tuple[Any, ...]]:
    try:
        connection, _ = connect(folder / FILE)
        with closing(connection):
            return connection.execute(statement).fetchall()
    except DATABASE_ERRORS as error:
        raise DamagedError(f"{folder / FILE} is damaged ({error}); {REPAIR}") from error


def _is_whole(file: Path) -> bool:
    """Whether a safetensors file has the size that its header says."""
    try:
        with open(file, "rb") as opened:
            size = int.from_bytes(opened.read(8), "little")
            if size > MAX_HEADER:
                return False
            header = json.loads(opened.read(size))
        header.pop("__metadata__", None)
        end = max(tensor["data_offsets"][1] for tensor in header.values())
        return bool(file.stat().st_size == 8 + size + end)
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return False
