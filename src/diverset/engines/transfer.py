"""Moving embedding sets into a store: from another store, or from a folder of shards.

What was moved is noted in a small file with the state of the source, so that a transfer that was
stopped goes on where it was. A note is not believed when the source has another state since, or
the target holds fewer items than the note says: then everything is moved again, and adding twice
changes nothing. Engines have no cheap state, so a copy from one of them always starts over.
Nothing is deleted from a target: items that the source lost meanwhile stay in it.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import NamedTuple, Protocol, runtime_checkable

from diverset.data.files import write_durably
from diverset.engines.settings import check_same
from diverset.index.base import Records, SetStore
from diverset.index.shards import check_complete, read_about, read_shard, state_of

Progress = Callable[[str, int, int], None]
PART = 1000  # items at once


@runtime_checkable
class Stateful(Protocol):
    """A store that can say cheaply whether it has changed."""

    @property
    def state(self) -> str: ...


@dataclass(frozen=True)
class Journal:
    """How far a transfer is: the last mark that is wholly in the target."""

    file: Path

    @classmethod
    def between(cls, folder: Path, source: str, target: str) -> Journal:
        """The note of one pair; addresses may hold passwords, so only their digest names it."""
        name = hashlib.sha256(f"{source}\n{target}".encode()).hexdigest()[:16]
        return cls(folder / f"{name}.json")

    def last(self, state: str, there: int) -> tuple[str, int]:
        """The mark to go on after, and how many items were moved; empty and 0 to begin.

        Args:
            state: of the source, now.
            there: items in the target, now.
        """
        try:
            noted = json.loads(self.file.read_text(encoding="utf-8"))
            after, moved = str(noted["after"]), int(noted["moved"])
            return (after, moved) if noted["state"] == state and moved <= there else ("", 0)
        except (OSError, ValueError, KeyError, TypeError):
            return "", 0

    def note(self, after: str, moved: int, state: str) -> None:
        self.file.parent.mkdir(parents=True, exist_ok=True)
        content = {"after": after, "moved": moved, "state": state}
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
    """Copy all items of a store into another one; says how many were written.

    With a journal, a copy from a `Stateful` store that was stopped goes on where it was.
    """
    check_same(source.settings, target.settings, "the target")
    state = source.state if isinstance(source, Stateful) else ""  # before anything is read
    parts = (_Part(part.ids[-1], len(part.ids), partial(_same, part)) for part in source.walk(size))
    noted = _Noted(journal, state) if journal and state else None
    return _move(parts, target, source.count(), noted, progress, "copying")


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
    noted = _Noted(journal, state_of(folder, about)) if journal else None
    return _move(parts, target, total, noted, progress, "adding shards")


class _Noted(NamedTuple):
    """A journal, and the state of the source that it is kept for."""

    journal: Journal
    state: str


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
    noted: _Noted | None,
    progress: Progress | None,
    what: str,
) -> int:
    """Add parts, those that are noted already left out."""
    last, before = noted.journal.last(noted.state, target.count()) if noted else ("", 0)
    seen = written = 0
    for part in parts:
        seen += part.items
        if part.mark > last:
            written += _add(part.read(), target)
            if noted:
                noted.journal.note(part.mark, before + written, noted.state)
        if progress:
            progress(what, seen, total)
    if noted:
        noted.journal.finish()
    return written


def _add(items: Records, target: SetStore) -> int:
    for start in range(0, len(items.ids), PART):
        some = slice(start, start + PART)
        target.add(items.ids[some], items.sets[some], items.metadata[some])
    return len(items.ids)


def _same(items: Records) -> Records:
    return items
