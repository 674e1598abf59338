"""Moving embedding sets into a store: from another store, or from a folder of shards.

What was moved is noted in a small file, so that a transfer that was stopped goes on where it was;
adding twice changes nothing. A note is not believed when the target holds fewer items than it
says: then the target was emptied in between, and everything is moved again.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import NamedTuple

from diverset.data.files import write_durably
from diverset.engines.settings import check_same
from diverset.index.base import Records, SetStore
from diverset.index.shards import check_complete, read_about, read_shard

Progress = Callable[[str, int, int], None]
PART = 1000  # items at once


@dataclass(frozen=True)
class Journal:
    """How far a transfer is: the last mark that is wholly in the target."""

    file: Path

    @classmethod
    def between(cls, folder: Path, source: str, target: str) -> Journal:
        """The note of one pair; addresses may hold passwords, so only their digest names it."""
        name = hashlib.sha256(f"{source}\n{target}".encode()).hexdigest()[:16]
        return cls(folder / f"{name}.json")

    def last(self, total: int, there: int) -> tuple[str, int]:
        """The mark to go on after, and how many items were moved; empty and 0 to begin."""
        try:
            noted = json.loads(self.file.read_text(encoding="utf-8"))
            after, moved = str(noted["after"]), int(noted["moved"])
            return (after, moved) if noted["total"] == total and moved <= there else ("", 0)
        except (OSError, ValueError, KeyError, TypeError):
            return "", 0

    def note(self, after: str, moved: int, total: int) -> None:
        self.file.parent.mkdir(parents=True, exist_ok=True)
        content = {"after": after, "moved": moved, "total": total}
        write_durably(self.file, json.dumps(content).encode())

    def finish(self) -> None:
        self.file.unlink(missing_ok=True)


def copy_store(
    source: SetStore,
    target: SetStore,
    journal: Journal | None = None,
    progress: Progress | None = None,
    size: int = PART,
) -> int:
    """Copy all items of a store into another one; says how many were written."""
    check_same(source.settings, target.settings, "the target")
    parts = (_Part(part.ids[-1], len(part.ids), partial(_same, part)) for part in source.walk(size))
    return _move(parts, target, source.count(), journal, progress, "copying")


def add_shards(
    folder: Path,
    target: SetStore,
    journal: Journal | None = None,
    progress: Progress | None = None,
    rank: int = 0,
    world: int = 1,
) -> int:
    """Add a process's shards of a folder to a store; says how many items were written."""
    about = read_about(folder)
    check_same(about.settings, target.settings, "the index")
    check_complete(folder, about)
    parts = (
        _Part(f"{one:08d}", len(about.places(one)), partial(read_shard, folder, about, one))
        for one in about.numbers[rank::world]
    )
    total = sum(len(about.places(one)) for one in about.numbers[rank::world])
    return _move(parts, target, total, journal, progress, "adding shards")


class _Part(NamedTuple):
    """Some items: the mark that is noted once they are moved, their number, and how to read them.

    Marks increase.
    """

    mark: str
    items: int
    read: Callable[[], Records]


def _move(
    parts: Iterable[_Part],
    target: SetStore,
    total: int,
    journal: Journal | None,
    progress: Progress | None,
    what: str,
) -> int:
    """Add parts, those that are noted already left out."""
    last, before = journal.last(total, target.count()) if journal else ("", 0)
    seen = written = 0
    for part in parts:
        seen += part.items
        if part.mark > last:
            written += _add(part.read(), target)
            if journal:
                journal.note(part.mark, before + written, total)
        if progress:
            progress(what, seen, total)
    if journal:
        journal.finish()
    return written


def _add(items: Records, target: SetStore) -> int:
    for start in range(0, len(items.ids), PART):
        some = slice(start, start + PART)
        target.add(items.ids[some], items.sets[some], items.metadata[some])
    return len(items.ids)


def _same(items: Records) -> Records:
    return items
