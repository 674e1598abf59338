"""Keeps the segments in step with the item database: writes, merges, rebuilds and deletes them.

A segment file is on disk before the transaction that lists it commits, and is deleted after the
transaction that drops it. A crash in between costs time, never items.
"""

from __future__ import annotations

import math
import sqlite3
from collections.abc import Iterator, Sequence
from dataclasses import astuple

import numpy as np
import torch

from diverset.errors import DamagedError
from diverset.index.block_checks import DamagedSegmentError
from diverset.index.item_database import LAST_ROW, ItemDatabase
from diverset.index.quantized_codes import Codes, concatenate, quantize
from diverset.index.schema import FILE, REPAIR
from diverset.index.segments import Segment, delete_others, read, write
from diverset.runtime.sqlite import BUSY_TIMEOUT

FLUSH_SIZE = 4096  # items that are quantized in memory before they are written to a segment
MERGE_COUNT = 8  # segments of similar size that are merged into one
MAX_SEGMENT_ITEMS = 2**17


def list_segments(database: ItemDatabase) -> list[Segment]:
    """The current segments, ordered by row number."""
    rows = database.connection.execute(
        "SELECT first, last, items, file, checksum FROM segments ORDER BY first"
    )
    segments = []
    for *columns, checksum in rows:
        segment = Segment(*columns)
        if segment.row_checksum != checksum:
            raise DamagedError(
                f"{database.folder}: the entry of segment {segment.file!r} in {FILE} is damaged; "
                f"{REPAIR}"
            )
        segments.append(segment)
    return segments


def check_segments(database: ItemDatabase, segments: Sequence[Segment]) -> None:
    """Raise if the table of segments has lost rows; call it within a transaction."""
    database.checks.total("segments", len(segments), sum(part.row_checksum for part in segments))


def quantize_rows(database: ItemDatabase, first: int, last: int = LAST_ROW) -> Codes:
    """Codes of a range of rows, quantized from the item database."""
    alpha = database.settings.alpha
    parts = [quantize(rows, sets, alpha) for rows, sets in database.sets(first, last)]
    return concatenate(parts) if len(parts) > 1 else parts[0]


def first_unflushed_row(segments: Sequence[Segment]) -> int:
    """The first row that no segment contains."""
    return segments[-1].last + 1 if segments else 0


def unflushed(database: ItemDatabase, first: int, previous: Codes | None) -> Codes:
    """Codes of the rows from `first` on, reusing those of an earlier call."""
    if previous is None or not len(previous) or int(previous.rows[0]) < first:
        return quantize_rows(database, first)
    # Rows may be gone: `compact` empties the table of removed rows.
    current = np.isin(previous.rows.numpy(), database.rows_from(first))
    previous = _select(previous, current)
    new = quantize_rows(database, int(previous.rows[-1]) + 1 if len(previous) else first)
    return concatenate([previous, new])


def flush(database: ItemDatabase) -> None:
    """Write the unflushed rows to a segment once there are enough, and merge segments."""
    if len(database.rows_from(first_unflushed_row(list_segments(database)))) < FLUSH_SIZE:
        return
    with database.writing() as connection:
        segments = list_segments(database)
        check_segments(database, segments)
        delete_others(database.folder, {segment.file for segment in segments})
        first = first_unflushed_row(segments)
        codes = quantize_rows(database, first)
        if not len(codes):  # another process was faster
            return
        last = int(codes.rows[-1])
        segments.append(write(database.folder, codes, database.settings, first, last))
        _replace(connection, [], segments[-1:])
        while group := _mergeable(segments):
            merged = concatenate([_read_current(database, segment) for segment in group])
            first, last = group[0].first, group[-1].last
            segment = write(database.folder, merged, database.settings, first, last)
            _replace(connection, group, [segment])
            connection.execute("DELETE FROM removed WHERE row BETWEEN ? AND ?", (first, last))
            segments = [*segments[: -len(group)], segment]


def compact(database: ItemDatabase) -> None:
    """Rewrite all segments into few files, without removed items."""
    database.connection.checksum_limit = None  # everything is read anyway
    with database.writing() as connection:
        old, new, first = list_segments(database), [], 0
        check_segments(database, old)
        for codes in _merged_parts(database, old):
            last = int(codes.rows[-1])
            new.append(write(database.folder, codes, database.settings, first, last))
            first = last + 1
        _replace(connection, old, new)
        connection.execute("DELETE FROM removed")
        connection.execute("DELETE FROM fields WHERE row NOT IN (SELECT row FROM items)")
    delete_unlisted(database)
    # executescript, since `execute` would free one page and stop. Truncating the log does not wait
    # for readers; the next compaction tries again.
    database.connection.executescript(
        "PRAGMA incremental_vacuum; PRAGMA busy_timeout = 0; PRAGMA wal_checkpoint(TRUNCATE); "
        f"PRAGMA busy_timeout = {int(1000 * BUSY_TIMEOUT)};"
    )


def delete_unlisted(database: ItemDatabase) -> None:
    """Delete the files that are not current segments."""
    with database.writing():  # no other process is between writing a segment and listing it
        delete_others(database.folder, {segment.file for segment in list_segments(database)})


def rebuild(database: ItemDatabase, damaged: Sequence[Segment]) -> None:
    if not set(damaged) & set(list_segments(database)):
        return
    with database.writing(wait=False) as connection:  # if another process writes, a later search
        for old in set(damaged) & set(list_segments(database)):
            codes = quantize_rows(database, old.first, old.last)
            new = write(database.folder, codes, database.settings, old.first, old.last)
            _replace(connection, [old], [new])


def _mergeable(segments: Sequence[Segment]) -> Sequence[Segment]:
    """The last `MERGE_COUNT` segments, if they are of similar size and fit into one."""
    group = segments[-MERGE_COUNT:]
    levels = {
        int(math.log(max(segment.items, FLUSH_SIZE) / FLUSH_SIZE, MERGE_COUNT)) for segment in group
    }
    fits = sum(segment.items for segment in group) <= MAX_SEGMENT_ITEMS
    return group if len(group) == MERGE_COUNT and len(levels) == 1 and fits else []


def _select(codes: Codes, mask: np.ndarray) -> Codes:
    return codes if mask.all() else codes.take(torch.from_numpy(mask.nonzero()[0]))


def _read_current(database: ItemDatabase, segment: Segment) -> Codes:
    """Codes of a segment without removed items."""
    codes = read_intact(database, segment)
    if codes is None:
        return quantize_rows(database, segment.first, segment.last)
    return _select(codes, ~np.isin(codes.rows.numpy(), database.removed()))


def read_intact(database: ItemDatabase, segment: Segment) -> Codes | None:
    """Codes of a segment whose blocks have all been checked; None if it has to be rebuilt."""
    codes = read(database.folder, segment, database.settings)
    try:
        return None if codes is None else codes.check_all()
    except DamagedSegmentError:
        return None


def _merged_parts(database: ItemDatabase, segments: Sequence[Segment]) -> Iterator[Codes]:
    """All codes, merged into parts of at most `MAX_SEGMENT_ITEMS` items."""
    pending: list[Codes] = []
    for part in _parts(database, segments):
        for start in range(0, len(part), MAX_SEGMENT_ITEMS):
            stop = min(start + MAX_SEGMENT_ITEMS, len(part))
            piece = part.take(torch.arange(start, stop))
            if sum(map(len, pending)) + len(piece) > MAX_SEGMENT_ITEMS:
                yield concatenate(pending)
                pending = []
            pending.append(piece)
    if pending:
        yield concatenate(pending)


def _parts(database: ItemDatabase, segments: Sequence[Segment]) -> Iterator[Codes]:
    """Segments, unflushed rows, and gaps between segments (a lost row of the table)."""
    first = 0
    for segment in segments:
        if first < segment.first:
            yield quantize_rows(database, first, segment.first - 1)
        yield _read_current(database, segment)
        first = segment.last + 1
    yield quantize_rows(database, first)


def _replace(
    connection: sqlite3.Connection, old: Sequence[Segment], new: Sequence[Segment]
) -> None:
    connection.executemany("DELETE FROM segments WHERE first = ?", [(part.first,) for part in old])
    rows = [(*astuple(part), part.row_checksum) for part in new]
    connection.executemany("INSERT INTO segments VALUES (?, ?, ?, ?, ?)", rows)
