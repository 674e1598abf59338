"""Copies embedding sets into a store, from another store or from a folder of shards.

A journal file records the progress and the state of the source, so that an interrupted transfer
resumes. It is ignored if the source has changed since, or if the target holds fewer items than
recorded: then everything is copied again, which is harmless. Engines have no cheap state, so a copy
from an engine always starts over. Nothing is deleted from a target, even if the source has deleted
it.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import NamedTuple

from diverset.engines.settings import check_same
from diverset.index.set_store import Records, SetStore
from diverset.index.shards import check_complete, read_manifest, read_shard, shards_state
from diverset.runtime.files import write_durably
from diverset.runtime.progress import ProgressCallback

BATCH = 1000  # items added at once


@dataclass(frozen=True)
class Journal:
    """The progress of a transfer: the last mark whose items are all in the target."""

    file: Path

    @classmethod
    def between(cls, folder: Path, source: str, target: str) -> Journal:
        """The journal of a pair of addresses; hashed, since they may contain passwords."""
        name = hashlib.sha256(f"{source}\n{target}".encode()).hexdigest()[:16]
        return cls(folder / f"{name}.json")

    def last(self, state: str, count: int) -> tuple[str, int]:
        """The last mark and the number of items copied; ("", 0) to start over.

        `state` is that of the source and `count` the number of items in the target, both now.
        """
        try:
            entry = json.loads(self.file.read_text(encoding="utf-8"))
            mark, copied = str(entry["mark"]), int(entry["copied"])
            return (mark, copied) if entry["state"] == state and copied <= count else ("", 0)
        except (OSError, ValueError, KeyError, TypeError):
            return "", 0

    def record(self, mark: str, copied: int, state: str) -> None:
        self.file.parent.mkdir(parents=True, exist_ok=True)
        entry = {"mark": mark, "copied": copied, "state": state}
        write_durably(self.file, json.dumps(entry).encode())

    def finish(self) -> None:
        self.file.unlink(missing_ok=True)


def copy_store(
    source: SetStore,
    target: SetStore,
    journal: Journal | None = None,
    progress: ProgressCallback | None = None,
    size: int = BATCH,
) -> int:
    """Copy all items of a store into another one; returns how many were written.

    With a journal, an interrupted copy from an embedded index resumes.
    """
    check_same(source.settings, target.settings, "the target")
    state = getattr(source, "state", None)  # before anything is read; engines have none
    parts = (_Part(batch.ids[-1], len(batch.ids), batch) for batch in source.walk(size))
    journal = None if state is None else journal
    return _transfer(parts, target, source.count(), journal, str(state), progress, "copying")


def load_shards(
    folder: Path,
    target: SetStore,
    journal: Journal | None = None,
    progress: ProgressCallback | None = None,
    rank: int = 0,
    world_size: int = 1,
) -> int:
    """Load the shards of one process into a store; returns how many items were written."""
    manifest = read_manifest(folder)
    check_same(manifest.settings, target.settings, "the store")
    check_complete(folder, manifest)
    shards = manifest.shards[rank::world_size]
    sizes = {shard: len(manifest.item_range(shard)) for shard in shards}
    parts = (
        _Part(f"{shard:08d}", size, partial(read_shard, folder, manifest, shard))
        for shard, size in sizes.items()
    )
    state = shards_state(folder, manifest)
    return _transfer(parts, target, sum(sizes.values()), journal, state, progress, "loading shards")


class _Part(NamedTuple):
    """Items that are journaled together: an increasing mark, their number, and they themselves
    or how to read them."""

    mark: str
    size: int
    items: Records | Callable[[], Records]


def _transfer(
    parts: Iterable[_Part],
    target: SetStore,
    total: int,
    journal: Journal | None,
    state: str,
    progress: ProgressCallback | None,
    task: str,
) -> int:
    """Add parts to a store, except those that the journal records."""
    last, copied = journal.last(state, target.count()) if journal else ("", 0)
    seen = written = 0
    for part in parts:
        seen += part.size
        if part.mark > last:
            items = part.items() if callable(part.items) else part.items
            for start in range(0, len(items.ids), BATCH):
                batch = slice(start, start + BATCH)
                target.add(items.ids[batch], items.sets[batch], items.metadata[batch])
            written += len(items.ids)
            if journal:
                journal.record(part.mark, copied + written, state)
        if progress:
            progress(task, seen, total)
    if journal:
        journal.finish()
    return written
