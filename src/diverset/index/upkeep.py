"""Keeping scan files in step with the truth: written when the tail grows, merged, mended, swept.

All of it happens inside a transaction of the truth: a file is on disk before the truth names it,
and is deleted after the truth forgot it. Being killed in between costs time, never items.
"""

from __future__ import annotations

import math
import sqlite3
from collections.abc import Iterator, Sequence

import numpy as np
import torch

from diverset.databases import PATIENCE
from diverset.index.codes import Codes, encode, join
from diverset.index.segments import Segment, read, sweep, write
from diverset.index.truth import Truth

TAIL = 4096  # items that are coded in memory before they get a file
FAN = 8  # files of one size that become one
LARGEST_FILE = 2**17  # items
ALL = 2**62


def listed(truth: Truth) -> list[Segment]:
    """The files that count, in the order of their rows."""
    found = truth.connection.execute("SELECT first, last, items, file FROM segments ORDER BY first")
    return [Segment(*line) for line in found]


def coded(truth: Truth, first: int, last: int) -> Codes:
    """Codes of a range of rows, from the truth, a part at a time."""
    parts: list[Codes] = []
    while not parts or len(parts[-1]) == TAIL:
        rows, sets = truth.sets(first, last, TAIL)
        parts.append(encode(rows, sets, truth.settings.alpha))
        first = int(rows[-1]) + 1 if len(rows) else first
    return join(parts) if len(parts) > 1 else parts[0]


def tail_start(segments: Sequence[Segment]) -> int:
    """The first row that no file covers."""
    return segments[-1].last + 1 if segments else 0


def tail(truth: Truth, first: int, known: Codes | None) -> Codes:
    """Codes of the rows from `first` on; what is known of an earlier moment is not made again."""
    if known is None or not len(known) or int(known.rows[0]) < first:
        return coded(truth, first, ALL)
    kept = np.isin(known.rows.numpy(), truth.rows_from(first))  # `compact` forgets what is removed
    known = known if kept.all() else known.take(torch.from_numpy(kept.nonzero()[0]))
    new = coded(truth, int(known.rows[-1]) + 1 if len(known) else first, ALL)
    return join([known, new])


def flush(truth: Truth) -> None:
    """Give the tail a file once it is long enough, and join files of one size."""
    if truth.stored_from(tail_start(listed(truth))) < TAIL:
        return
    with truth.writing() as connection:
        segments = listed(truth)
        sweep(truth.folder, {segment.file for segment in segments})
        first = tail_start(segments)
        codes = coded(truth, first, ALL)
        if not len(codes):  # another process was faster
            return
        segments.append(write(truth.folder, codes, truth.settings, first, int(codes.rows[-1])))
        _replace(connection, [], segments[-1:])
        while many := _of_one_size(segments):
            joined = join([_alive(truth, one) for one in many])
            new = write(truth.folder, joined, truth.settings, many[0].first, many[-1].last)
            _replace(connection, many, [new])
            connection.execute(
                "DELETE FROM removed WHERE row BETWEEN ? AND ?", (new.first, new.last)
            )
            segments = [*segments[: -len(many)], new]


def compact(truth: Truth) -> None:
    """Write everything anew, in few files, without what was removed."""
    with truth.writing() as connection:
        old, new, first = listed(truth), [], 0
        for codes in _portions(truth, old):
            new.append(write(truth.folder, codes, truth.settings, first, int(codes.rows[-1])))
            first = new[-1].last + 1
        _replace(connection, old, new)
        connection.execute("DELETE FROM removed")
        connection.execute("DELETE FROM fields WHERE row NOT IN (SELECT row FROM items)")
    with truth.writing():  # nobody else is between writing a file and naming it
        sweep(truth.folder, {segment.file for segment in listed(truth)})
    # As a script: `execute` would free one page and stop. Emptying the log is worth no waiting for
    # readers; it is tried again by the next compaction.
    truth.connection.executescript(
        "PRAGMA incremental_vacuum; PRAGMA busy_timeout = 0; PRAGMA wal_checkpoint(TRUNCATE); "
        f"PRAGMA busy_timeout = {int(1000 * PATIENCE)};"
    )


def mend(truth: Truth, broken: Sequence[Segment]) -> None:
    """Write files anew that cannot be read."""
    if not set(broken) & set(listed(truth)):
        return
    with truth.writing(wait=False) as connection:  # whoever writes now leaves it to a later search
        for old in set(broken) & set(listed(truth)):
            codes = coded(truth, old.first, old.last)
            new = [write(truth.folder, codes, truth.settings, old.first, old.last)]
            _replace(connection, [old], new)


def _of_one_size(segments: Sequence[Segment]) -> Sequence[Segment]:
    """The last `FAN` files, if they are about equally large and fit into one."""
    last = segments[-FAN:]
    sizes = {int(math.log(max(one.items, TAIL) / TAIL, FAN)) for one in last}
    fits = sum(one.items for one in last) <= LARGEST_FILE
    return last if len(last) == FAN and len(sizes) == 1 and fits else []


def _alive(truth: Truth, segment: Segment) -> Codes:
    """Codes of a file without what was removed."""
    codes = read(truth.folder, segment, truth.settings)
    if codes is None:
        return coded(truth, segment.first, segment.last)
    kept = ~np.isin(codes.rows.numpy(), truth.removed())
    return codes if kept.all() else codes.take(torch.from_numpy(kept.nonzero()[0]))


def _portions(truth: Truth, segments: Sequence[Segment]) -> Iterator[Codes]:
    """Everything, files and tail, in portions of `LARGEST_FILE` items at most."""
    held: list[Codes] = []
    for part in _parts(truth, segments):
        for start in range(0, len(part), LARGEST_FILE):
            some = part.take(torch.arange(start, min(start + LARGEST_FILE, len(part))))
            if sum(map(len, held)) + len(some) > LARGEST_FILE:
                yield join(held)
                held = []
            held.append(some)
    if held:
        yield join(held)


def _parts(truth: Truth, segments: Sequence[Segment]) -> Iterator[Codes]:
    """Files and tail, and whatever lies between files, where a line of the table was lost."""
    first = 0
    for segment in segments:
        if first < segment.first:
            yield coded(truth, first, segment.first - 1)
        yield _alive(truth, segment)
        first = segment.last + 1
    yield coded(truth, first, ALL)


def _replace(
    connection: sqlite3.Connection, old: Sequence[Segment], new: Sequence[Segment]
) -> None:
    connection.executemany("DELETE FROM segments WHERE first = ?", [(one.first,) for one in old])
    lines = [(one.first, one.last, one.items, one.file) for one in new]
    connection.executemany("INSERT INTO segments VALUES (?, ?, ?, ?)", lines)
