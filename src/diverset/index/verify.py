"""Checks of a whole index: every row of the database, every block of the segments, every graph.

The item database is the only copy of ids and metadata, and each row has a checksum, so a problem
names the copy that is damaged. Codes are compared with the sets in float64, so what the search
relies on is what is checked.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

from diverset.errors import IndexFileError, a_few
from diverset.index.approximate import is_intact, read_plan
from diverset.index.database_checks import DatabaseChecks
from diverset.index.item_database import ItemDatabase
from diverset.index.quick_checks import holds_index
from diverset.index.salvage import intact_copies
from diverset.index.schema import FILE, TABLES
from diverset.index.segment_writer import list_segments, read_intact
from diverset.index.segments import Segment
from diverset.index.verify_codes import invalid_codes, invalid_sets
from diverset.runtime.checksums import row_checksum
from diverset.runtime.sqlite import DATABASE_ERRORS, has_wrong_checksum


def verify_folder(folder: Path) -> list[str]:
    """Descriptions of what is wrong with an index, also if it cannot be opened."""
    try:
        unused = unused_bytes_problems(folder)  # before SQLite opens the file
        with closing(ItemDatabase.open(folder)) as database, database.reading():
            return find_problems(database) or unused
    except IndexFileError as error:
        if not holds_index(folder):
            raise
        return [str(error)]


def unused_bytes_problems(folder: Path) -> list[str]:
    """Damage that only the checksum of the whole database shows, if no other check finds any."""
    if not has_wrong_checksum(folder / FILE):
        return []
    return [
        f"{FILE} is damaged in bytes that no table uses; every item is intact: --repair rewrites "
        "the file"
    ]


def find_problems(database: ItemDatabase) -> list[str]:
    """Descriptions of what is wrong; empty if nothing is."""
    if problems := database_problems(database):
        return problems
    segments = list_segments(database)
    problems = [problem for part in segments for problem in segment_problems(database, part)]
    return problems + graph_problems(database)


def database_problems(database: ItemDatabase) -> list[str]:
    """What is wrong with `items.sqlite`."""
    problems: list[str] = []
    try:
        for problem in _database_problems(database):  # kept if a later check raises
            problems.append(problem)
        return problems or invalid_sets(database)
    except (*DATABASE_ERRORS, IndexFileError) as error:
        return [*problems, f"{FILE} is damaged ({error}); --repair keeps every intact item"]


def _database_problems(database: ItemDatabase) -> Iterator[str]:
    select = database.connection.execute
    lines = [line for (line,) in select("PRAGMA integrity_check") if line != "ok"]
    if lines:
        yield f"{FILE} is damaged: SQLite finds {a_few(lines)}; --repair keeps every intact item"
        return
    database.changes()
    read_plan(database)
    yield from _damaged_items(database)
    yield from _damaged_sets(database)
    for table, other in (("items", "sets"), ("sets", "items")):
        missing = select(f"SELECT row FROM {table} WHERE row NOT IN (SELECT row FROM {other})")
        if rows := [row for (row,) in missing]:
            yield f"rows {a_few(rows)} of {FILE} are in {table} but not in {other}"
    yield from _damaged_tables(database)


def _damaged_items(database: ItemDatabase) -> Iterator[str]:
    rows = database.connection.execute("SELECT row, id, metadata, checksum FROM items")
    damaged = [item for row, item, text, value in rows if row_checksum(row, item, text) != value]
    if damaged:
        yield f"items {a_few(damaged)} in {FILE} are damaged; --repair removes them: add them again"


def _damaged_sets(database: ItemDatabase) -> Iterator[str]:
    rows = database.connection.execute("SELECT row, data, checksum FROM sets")
    damaged = [row for row, data, value in rows if not database.is_intact(row, data, value)]
    if not damaged:
        return
    copies = intact_copies(database.folder, database.settings, set(damaged))
    lost = sorted(set(damaged) - copies.keys())
    if copies:
        yield (
            f"the sets of rows {a_few(sorted(copies))} in {FILE} are damaged; the copies in the "
            "segments are right: --repair restores them"
        )
    if lost:
        yield (
            f"the sets of rows {a_few(lost)} in {FILE} are damaged and there is no other copy; "
            "--repair removes these items: add them again"
        )


def _damaged_tables(database: ItemDatabase) -> Iterator[str]:
    """Tables that have lost rows, and derived tables with damaged rows."""
    select = database.connection.execute
    checks = DatabaseChecks(database.folder, database.connection)  # new: none has passed before
    for table in TABLES:
        column = "row" if table == "removed" else "checksum"
        count, value = select(f"SELECT count(*), total({column}) FROM {table}").fetchone()
        yield from _raised(checks.total, table, count, int(value))
    checks.field_totals()
    for name, kind in select("SELECT DISTINCT name, kind FROM fields").fetchall():
        yield from _raised(checks.field, name, kind)
    list_segments(database)  # compares the checksums of its rows
    uncovered = select(
        "SELECT row FROM sets WHERE row <= (SELECT max(last) FROM segments) AND NOT EXISTS "
        "(SELECT 1 FROM segments WHERE sets.row BETWEEN first AND last)"
    )
    if rows := [row for (row,) in uncovered]:
        yield f"rows {a_few(rows)} are in no segment; compact the index"


def _raised(check: Callable[..., None], *args: object) -> Iterator[str]:
    try:
        check(*args)
    except IndexFileError as error:
        yield str(error)


def segment_problems(database: ItemDatabase, segment: Segment) -> list[str]:
    """What is wrong with a segment of an intact database."""
    codes = read_intact(database, segment)
    lines = ["is missing or damaged"] if codes is None else invalid_codes(database, segment, codes)
    return [f"{segment.file} {line}; {FILE} is right: --repair rebuilds the file" for line in lines]


def graph_problems(database: ItemDatabase) -> list[str]:
    """What is wrong with the graphs of approximate search."""
    plan = read_plan(database)
    files = [database.folder / name for name in plan.files] if plan else []
    return [
        f"{file.name} is missing or damaged; run diverset store tune again"
        for file in files
        if not file.exists() or not is_intact(file)
    ]
