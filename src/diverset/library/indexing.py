"""Bringing a library up to date with its folders: only what changed is read, only what is new
is encoded.

A file counts as unchanged by size and time. Of the others the content is hashed: what the index
has already, under an old name or another one, keeps its set. Batches are durable one by one, so
that a kill loses one at most. Files that are gone are forgotten last, when nothing can need their
sets any more; where a folder could not be read, nothing is.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing
from dataclasses import dataclass, field, replace
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

BATCH = 16
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
    workers: int = 0,
    batch: int = BATCH,
) -> Outcome:
    """Index folders, or all that the library knows.

    Args:
        library: opened by `Library.prepare`.
        folders: they become folders of the library.
        report: called after every batch.
        workers: threads that read and encode, each a batch of its own; 0 for one a core.
        batch: pictures of one thread at once, and what a kill can lose of each.
    """
    given = [_checked(Path(os.path.abspath(folder))) for folder in folders]
    for root in given:
        library.catalog.add_root(root)
    started, outcome = time.monotonic(), Outcome()
    walk = Walk(given or library.catalog.roots, avoid=[library.folder])
    found = [one for one in walk if _storable(one, outcome)]
    known = {one.path: one for one in library.catalog.files()}
    _keep_away(walk, found, known)
    changed = [one for one in found if one.path not in known or not known[one.path].is_as(one)]
    outcome.total, outcome.unchanged = len(found), len(found) - len(changed)
    outcome.skipped.update(walk.unreadable)
    if changed:
        _Job(library, outcome, report, batch).run(changed, workers)
    there = {one.path for one in found}
    gone = [path for path in known if path not in there and is_below(path, walk.roots)]
    gone = [path for path in gone if not walk.misses(path)]
    forget(library, [known[path] for path in gone])
    outcome.forgotten = len(gone)
    outcome.seconds = time.monotonic() - started
    return outcome


def forget(library: Library, files: Sequence[File]) -> None:
    """Drop files from the index; the files themselves are nobody's business here."""
    if files:
        paths = [one.path for one in files]
        # Pending first: one that is back after a kill in between counts as changed.
        library.catalog.put(replace(one, status=PENDING) for one in files)
        library.pictures.delete(paths)
        library.catalog.forget(paths)


def _storable(found: Found, outcome: Outcome) -> bool:
    """Whether a database can hold the path; if not, it is a skipped one in every run."""
    if not _is_utf8(found.path):
        outcome.skipped[found.path] = "its name is not UTF-8; rename it"
        return False
    return True


def _is_utf8(path: str) -> bool:
    try:
        path.encode()
    except UnicodeEncodeError:
        return False
    return True


def _keep_away(walk: Walk, found: Sequence[Found], known: Iterable[str]) -> None:
    """Mark folders of the library that are missing, or empty all of a sudden, as not looked at."""
    for root in walk.roots:
        there = any(is_below(one.path, [root]) for one in found)
        before = sum(is_below(path, [root]) for path in known) if not there else 0
        if before and str(root) not in walk.unreadable:
            walk.unreadable[str(root)] = "has no pictures any more"
        if before:
            walk.unreadable[str(root)] += (
                f"; {before:,} that are indexed stay in the library, in case a disk is not plugged "
                f"in. Deleted for good? diverset index --forget {root}"
            )


@dataclass(eq=False)
class _Batch:
    """Files that were read together: encoded, known already, or not to be read."""

    fresh: list[Read] = field(default_factory=list)
    sets: list[Sets] = field(default_factory=list)  # of those in `fresh`
    same: list[Read] = field(default_factory=list)
    failed: list[Read] = field(default_factory=list)


class _Job:
    """Reading, encoding and storing what changed."""

    def __init__(
        self, library: Library, outcome: Outcome, report: Report | None, batch: int
    ) -> None:
        self.library, self.outcome, self.report, self.batch = library, outcome, report, batch
        self.catalog: Catalog = library.catalog
        self.started = self.noted = time.monotonic()

    def run(self, changed: Sequence[Found], workers: int) -> None:
        from diverset.library.encoding import side_by_side

        self.library.encoder  # noqa: B018 - loaded before the clock of the rate starts
        self.started = time.monotonic()
        self._note(0, len(changed))
        done = 0
        parts = [changed[at : at + self.batch] for at in range(0, len(changed), self.batch)]
        encoded = side_by_side(self._encoded, parts, workers)
        try:
            with ThreadPoolExecutor(1) as writer, closing(encoded):
                stored: Future[None] = writer.submit(lambda: None)
                for part, batch in zip(parts, encoded, strict=True):
                    stored.result()  # one batch is stored while others are encoded
                    copied = self._settled(batch)
                    stored = writer.submit(self._store, batch, copied)
                    done += len(part)
                    self._tell(done, len(changed))
                stored.result()
        finally:
            self._note(done, len(changed), ended=True)

    def _encoded(self, found: Sequence[Found], anew: bool = False) -> _Batch:
        """Read some files and encode them; `anew`: even where the index has their content."""
        from diverset.library.reading import read_picture

        encoder, batch = self.library.encoder, _Batch()
        for one in found:
            known = (lambda _: None) if anew else self.catalog.with_digest
            read = read_picture(one, encoder.preprocess, known)
            kind = batch.failed if read.reason else batch.same if read.same else batch.fresh
            kind.append(read)
        if batch.fresh:
            batch.sets = [
                encoder.encode([one.pixels for one in batch.fresh if one.pixels is not None])
            ]
        return batch

    def _settled(self, batch: _Batch) -> dict[Read, Records]:
        """The stored sets of pictures with known content.

        Pictures are read ahead: a path that had this content then may have another one by now, as
        when two files change names. Such a picture is read again.
        """
        copied: dict[Read, Records] = {}
        for one in batch.same:
            known = self.catalog.file(one.same or "")
            stored = self.library.pictures.get([one.same or ""])
            if known and (known.status, known.digest) == (INDEXED, one.digest) and stored.ids:
                copied[one] = stored
            else:
                again = self._encoded([one.found], anew=True)
                batch.fresh += again.fresh
                batch.sets += again.sets
                batch.failed += again.failed
        return copied

    def _store(self, batch: _Batch, copied: dict[Read, Records]) -> None:
        """Make one batch durable: pending, then in the index, then indexed."""
        self._skip(batch.failed)
        files = [_file(one, INDEXED) for one in (*batch.fresh, *copied)]
        if files:
            about = [one.metadata for one in batch.fresh]
            about += [{**stored.metadata[0], **one.metadata} for one, stored in copied.items()]
            sets = np.concatenate([*batch.sets, *(stored.sets for stored in copied.values())])
            self.catalog.put(replace(one, status=PENDING) for one in files)
            self.library.pictures.add([one.path for one in files], sets, about)
            self.catalog.put(files)
        self.outcome.encoded += len(batch.fresh)
        self.outcome.reused += len(copied)

    def _skip(self, failed: Sequence[Read]) -> None:
        """Write down what cannot be read; what was good once and is broken now is dropped.

        Where the reason may pass, an old set stays, and the next run tries again: no file has the
        size that is noted.
        """
        self.outcome.skipped.update({one.found.path: one.reason for one in failed})
        for one in failed:
            old = self.catalog.file(one.found.path)
            if one.passing and old and old.status == INDEXED:
                self.catalog.put([replace(old, size=-1)])
                continue
            self.library.pictures.delete([one.found.path])
            noted = _file(one, SKIPPED)
            self.catalog.put([replace(noted, size=-1) if one.passing else noted])

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
        job = {"done": done, "total": total, "rate": rate, "ended": ended}
        self.catalog.note("job", job)


def _file(read: Read, status: str) -> File:
    one = read.found
    place = os.path.realpath(one.path)
    return File(one.path, one.size, one.mtime_ns, read.digest, status, read.reason, place)


def _checked(folder: Path) -> Path:
    if not folder.is_dir():
        raise DataError(
            f"there is no folder {folder}; check the path. What is indexed of it stays in the "
            "library, in case it is a disk that is not plugged in"
        )
    if not _is_utf8(str(folder)):
        raise DataError(f"the name of the folder {str(folder)!r} is not UTF-8; rename it")
    return folder


def is_below(path: str, roots: Sequence[Path]) -> bool:
    """Whether a file lies in one of these folders.

    >>> is_below("/a/b/c.jpg", [Path("/a/b")]), is_below("/a/bc.jpg", [Path("/a/b")])
    (True, False)
    """
    return any(path.startswith(str(root).rstrip(os.sep) + os.sep) for root in roots)
