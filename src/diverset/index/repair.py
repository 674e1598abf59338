"""Repair of an index: what is derived is rebuilt, what is intact is kept, the rest is removed."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

from diverset.errors import IndexFileError
from diverset.index import segment_writer
from diverset.index.item_database import ItemDatabase
from diverset.index.salvage import salvage
from diverset.index.schema import FILE
from diverset.index.set_store import IndexSettings
from diverset.index.verify import (
    database_problems,
    graph_problems,
    segment_problems,
    unused_bytes_problems,
)


def repair(folder: Path, settings: IndexSettings | None = None) -> list[str]:
    """Repair an index that no other process writes to; returns what was done.

    Args:
        folder: of the index.
        settings: needed only if those of the index are damaged.
    """
    actions = _repair_database(folder, settings)
    with closing(ItemDatabase.open(folder)) as database:
        with database.reading():
            segments = segment_writer.list_segments(database)
            damaged = [segment for segment in segments if segment_problems(database, segment)]
            graphs = graph_problems(database)
        if damaged:
            segment_writer.rebuild(database, damaged)
            actions.append(f"{len(damaged)} segments rebuilt from {FILE}")
        if actions:
            segment_writer.compact(database)
        if graphs:
            with database.writing() as connection:
                connection.execute("DELETE FROM properties WHERE key = 'plan'")
            actions.append("damaged graphs dropped; run diverset store tune again")
        segment_writer.delete_unlisted(database)
    return actions


def _repair_database(folder: Path, settings: IndexSettings | None) -> list[str]:
    """Rewrite a damaged database."""
    unused = unused_bytes_problems(folder)
    try:
        with closing(ItemDatabase.open(folder)) as database, database.reading():
            settings = database.settings
            if not unused and not database_problems(database):
                return []
    except IndexFileError:
        if settings is None:
            raise
    kept, lost = salvage(folder, settings)
    lost_items = f"; {lost:,} damaged items removed, add them again" if lost else ""
    return [f"{FILE} rewritten with {kept:,} intact items{lost_items}"]
