"""Bringing a library up to date with its folders: only what changed is read, only what is new
is encoded.

A file counts as unchanged by size and time. Of the others the content is hashed: what the index
has already, under an old name or another one, keeps its set. Batches are durable one by one, so
that a kill loses one at most. Files that are gone are forgotten last, when nothing can need their
sets any more; where a folder could not be read, nothing is.
"""

from __future__ import annotations

import itertools
import os
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from diverset.errors import DataError
from diverset.library.catalog import INDEXED, PENDING, SKIPPED, Catalog, File
from diverset.library.library import Library
from diverset.library.progress import Progress, Report
from diverset.library.walking import Found, Walk

if TYPE_CHECKING:  # torch is not needed where nothing has changed
    from diverset.index.base import Records, Sets
    from diverset.library.reading import Read

BATCH = 32
NOTED = 2.0  # seconds between two notes of how far it is


@dataclass
class Outcome:
    """What a run did."""

    total: int = 0
    unchanged: int = 0
    encoded: int = 0
    reused: int = 0
    forgotten: int = 0
    skipped: dict[str, str] = field(default_factory=dict)
    seconds: float = 0.0

    def __str__(self) -> str:
        parts = [f"{self.total:,} files", f"{self.encoded:,} encoded"]
        for count, name in (
            (self.reused, "moved or copied"),
            (self.forgotten, "forgotten"),
            (self.unchanged, "unchanged"),
            (len(self.skipped), "skipped"),
        ):
            if count:
                parts.append(f"{count:,} {name}")
        rate = f", {self.encoded / self.seconds:.1f}/s" if self.encoded and self.seconds else ""
        return ", ".join(parts) + f" in {self.seconds:.1f} s{rate}"


def index_folders(
    library: Library,
    folders: Sequence[str | Path] = (),
    report: Report | None = None,
    workers: int = 2,
    batch: int = BATCH,
) -> Outcome:
    """Index folders, or all that the library knows.

    Args:
        library: opened by `Library.prepare`.
        folders: they become folders of the library.
        report: called after every batch.
        workers: threads that read pictures.
        batch: pictures that are encoded at once, and what a kill can lose.
    """
    roots = [_checked(Path(folder)) for folder in folders] or library.catalog.roots
    for root in roots:
        _checked(root)
        if folders:
            library.catalog.add_root(root)
    started = time.monotonic()
    walk = Walk(roots, avoid=[library.folder])
    found = list(walk)
    known = {one.path: one for one in library.catalog.files()}
    changed = [one for one in found if one.path not in known or not known[one.path].is_as(one)]
    outcome = Outcome(total=len(found), unchanged=len(found) - len(changed))
    outcome.skipped.update(walk.unreadable)
    if changed:
        _Job(library, outcome, report, batch).run(changed, workers)
    there = {one.path for one in found}
    gone = [path for path in known if path not in there and _below(path, roots)]
    gone = [path for path in gone if not walk.misses(path)]
    forget(library, gone)
    outcome.forgotten = len(gone)
    outcome.seconds = time.monotonic() - started
    return outcome


def forget(library: Library, paths: Sequence[str]) -> None:
    """Drop files from the index; the files themselves are nobody's business here."""
    if paths:
        library.pictures.delete(paths)
        library.catalog.forget(paths)


class _Job:
    """Reading, encoding and storing what changed."""

    def __init__(
        self, library: Library, outcome: Outcome, report: Report | None, batch: int
    ) -> None:
        self.library, self.outcome, self.report, self.batch = library, outcome, report, batch
        self.catalog: Catalog = library.catalog
        self.started = self.noted = time.monotonic()

    def run(self, changed: Sequence[Found], workers: int) -> None:
        from diverset.library.reading import read_picture

        preprocess = self.library.encoder.preprocess

        def read(one: Found) -> Read:
            return read_picture(one, preprocess, self.catalog.with_digest)

        done = 0
        try:
            with ThreadPoolExecutor(1) as writer:  # stores a batch while the next one is encoded
                stored: Future[None] = writer.submit(lambda: None)
                for some in ahead(read, changed, self.batch, workers):
                    fresh = self._encoded([one for one in some if one.pixels is not None])
                    stored.result()
                    again, copied = self._settled([one for one in some if one.same is not None])
                    fresh += self._encoded([one for one in again if one.pixels is not None])
                    failed = [one for one in (*some, *again) if one.reason]
                    stored = writer.submit(self._store, fresh, copied, failed)
                    done += len(some)
                    self._tell(done, len(changed))
                stored.result()
        finally:
            self._note(done, len(changed), ended=True)

    def _encoded(self, some: Sequence[Read]) -> list[tuple[Read, Sets]]:
        pixels = [one.pixels for one in some if one.pixels is not None]
        if not pixels:
            return []
        sets = self.library.encoder.encode(pixels)
        return [(one, sets[place][None]) for place, one in enumerate(some)]

    def _store(
        self,
        fresh: Sequence[tuple[Read, Sets]],
        copied: dict[Read, Records],
        failed: Sequence[Read],
    ) -> None:
        """Make one batch durable: pending, then in the index, then indexed."""
        items = [(one, sets, one.metadata) for one, sets in fresh]
        items += [
            (one, stored.sets, {**stored.metadata[0], **one.metadata})
            for one, stored in copied.items()
        ]
        self._skip(failed)
        if items:
            self.catalog.put(_file(one, PENDING) for one, _, _ in items)
            ids = [one.found.path for one, _, _ in items]
            sets = np.concatenate([sets for _, sets, _ in items])
            self.library.pictures.add(ids, sets, [about for _, _, about in items])
            self.catalog.put(_file(one, INDEXED) for one, _, _ in items)
        self.outcome.encoded += len(fresh)
        self.outcome.reused += len(copied)

    def _settled(self, some: Sequence[Read]) -> tuple[list[Read], dict[Read, Records]]:
        """Of pictures with known content: those to be encoded after all, and stored sets.

        Pictures are read ahead: a path that had this content then may have another one by now, as
        when two files change names. Such a picture is read again.
        """
        from diverset.library.reading import read_picture

        again: list[Read] = []
        copied: dict[Read, Records] = {}
        for one in some:
            known = self.catalog.file(one.same or "")
            stored = self.library.pictures.get([one.same or ""])
            if known and (known.status, known.digest) == (INDEXED, one.digest) and stored.ids:
                copied[one] = stored
            else:
                preprocess = self.library.encoder.preprocess
                again.append(read_picture(one.found, preprocess, lambda _: None))
        return again, copied

    def _skip(self, failed: Sequence[Read]) -> None:
        """Write down what cannot be read; what was good once and is broken now is dropped."""
        self.outcome.skipped.update({one.found.path: one.reason for one in failed})
        storable = [one for one in failed if one.is_storable]
        if storable:
            self.library.pictures.delete([one.found.path for one in storable])
            self.catalog.put(_file(one, SKIPPED) for one in storable)

    def _tell(self, done: int, total: int) -> None:
        now = time.monotonic()
        rate = done / max(now - self.started, 1e-9)
        if self.report:
            self.report(Progress(done, total, len(self.outcome.skipped), rate))
        if now - self.noted > NOTED:
            self.noted = now
            self._note(done, total)

    def _note(self, done: int, total: int, ended: bool = False) -> None:
        rate = done / max(time.monotonic() - self.started, 1e-9)
        job = {"done": done, "total": total, "rate": rate, "at": time.time(), "ended": ended}
        self.catalog.note("job", job)


def ahead(
    read: Callable[[Found], Read],
    items: Sequence[Found],
    batch: int,
    workers: int,
) -> Iterator[list[Read]]:
    """Batches in order, read by threads while the network is at work on the one before."""
    waiting: deque[list[Future[Read]]] = deque()
    starts = iter(range(0, len(items), batch))
    with ThreadPoolExecutor(workers) as pool:
        try:
            for start in itertools.chain(starts, (None, None)):
                if start is not None:
                    waiting.append([pool.submit(read, one) for one in items[start : start + batch]])
                if len(waiting) > 2 or (start is None and waiting):
                    yield [future.result() for future in waiting.popleft()]
        finally:
            pool.shutdown(wait=False, cancel_futures=True)


def _file(read: Read, status: str) -> File:
    one = read.found
    return File(one.path, one.size, one.mtime_ns, read.digest, status, read.reason)


def _checked(folder: Path) -> Path:
    if not folder.is_dir():
        raise DataError(
            f"there is no folder {folder}; check the path. What is indexed of it stays in the "
            "library, in case it is a disk that is not plugged in"
        )
    return Path(os.path.abspath(folder))


def _below(path: str, roots: Sequence[Path]) -> bool:
    return any(path.startswith(str(root).rstrip(os.sep) + os.sep) for root in roots)
