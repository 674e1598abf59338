"""Reading, encoding and storing changed files, in batches by several threads."""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing
from dataclasses import dataclass, field, replace

import numpy as np

from diverset.data.walking import ImageFile
from diverset.index.set_store import Records, Sets
from diverset.photos.library.catalog import INDEXED, PENDING, SKIPPED, FileRecord
from diverset.photos.library.encoding import parallel_map
from diverset.photos.library.library import Library
from diverset.photos.library.reading import ReadResult, read_image
from diverset.photos.library.result import IndexingResult
from diverset.runtime.progress import Progress

SAVE_INTERVAL = 2.0  # seconds between two writes of the progress
UNKNOWN_SIZE = -1  # no file has it, so the next run reads the file again


@dataclass(eq=False)
class _Batch:
    """Files that were read together: with new content, with indexed content, or unreadable."""

    new: list[ReadResult] = field(default_factory=list)
    sets: list[Sets] = field(default_factory=list)  # of those in `new`
    copies: list[ReadResult] = field(default_factory=list)
    failed: list[ReadResult] = field(default_factory=list)


class IndexingJob:
    """One run over changed files; counts go into `result`."""

    def __init__(
        self, library: Library, result: IndexingResult, progress: Progress | None, batch: int
    ) -> None:
        self.library, self.result, self.progress, self.batch = library, result, progress, batch
        self.catalog = library.catalog
        self.started = self.saved = time.monotonic()

    def run(self, files: Sequence[ImageFile], workers: int | None = None) -> None:
        self.preprocess = self.library.encoder.preprocess  # loads the backbone, which takes time
        self.started = time.monotonic()
        self._save_progress(0, len(files))
        done = 0
        parts = [files[start : start + self.batch] for start in range(0, len(files), self.batch)]
        batches = parallel_map(self._read_and_encode, parts, workers)
        try:
            with ThreadPoolExecutor(1) as writer, closing(batches):
                storing: Future[None] = writer.submit(lambda: None)
                for part, batch in zip(parts, batches, strict=True):
                    storing.result()  # one batch is stored while others are encoded
                    reused = self._reusable_sets(batch)
                    storing = writer.submit(self._store, batch, reused)
                    done += len(part)
                    self._report_progress(done, len(files))
                storing.result()
        finally:
            self._save_progress(done, len(files), finished=True)

    def _read_and_encode(self, files: Sequence[ImageFile], reuse: bool = True) -> _Batch:
        """Read and encode files; `reuse`: not those whose content is indexed already."""
        batch = _Batch()
        path_with_digest = self.catalog.path_with_digest if reuse else lambda _: None
        for file in files:
            read = read_image(file, self.preprocess, path_with_digest)
            if read.reason:
                batch.failed.append(read)
            else:
                (batch.copies if read.copy_of else batch.new).append(read)
        if batch.new:
            pixels = [read.pixels for read in batch.new if read.pixels is not None]
            batch.sets = [self.library.encoder.encode(pixels)]
        return batch

    def _reusable_sets(self, batch: _Batch) -> dict[ReadResult, Records]:
        """The stored sets of files whose content is indexed already.

        Files are read ahead: a path that had this content then may have another one by now, as
        when two files swap names. Such a file is read again.
        """
        reused: dict[ReadResult, Records] = {}
        for read in batch.copies:
            path = read.copy_of or ""
            record, stored = self.catalog.file(path), self.library.images.get([path])
            if record and (record.status, record.digest) == (INDEXED, read.digest) and stored.ids:
                reused[read] = stored
            else:
                again = self._read_and_encode([read.file], reuse=False)
                batch.new += again.new
                batch.sets += again.sets
                batch.failed += again.failed
        return reused

    def _store(self, batch: _Batch, reused: dict[ReadResult, Records]) -> None:
        """Make one batch durable: pending in the catalog, then in the index, then indexed."""
        self._skip(batch.failed)
        records = [_record(read, INDEXED) for read in (*batch.new, *reused)]
        if records:
            metadata = [read.metadata for read in batch.new]
            metadata += [{**stored.metadata[0], **read.metadata} for read, stored in reused.items()]
            sets = np.concatenate([*batch.sets, *(stored.sets for stored in reused.values())])
            self.catalog.put_files(replace(record, status=PENDING) for record in records)
            self.library.images.add([record.path for record in records], sets, metadata)
            self.library.images.checksum_on_close()
            self.catalog.put_files(records)
        self.result.encoded += len(batch.new)
        self.result.reused += len(reused)

    def _skip(self, failed: Sequence[ReadResult]) -> None:
        """Record unreadable files; a set of content that is broken now is deleted.

        If the reason may be transient, a stored set stays and the next run tries again.
        """
        self.result.skipped.update({read.file.path: read.reason for read in failed})
        for read in failed:
            record = self.catalog.file(read.file.path)
            if not read.transient or record is None or record.status != INDEXED:
                self.library.images.delete([read.file.path])
                record = _record(read, SKIPPED)
            if read.transient:
                record = replace(record, size=UNKNOWN_SIZE)
            self.catalog.put_files([record])

    def _report_progress(self, done: int, total: int) -> None:
        now = time.monotonic()
        if self.progress:
            skipped = len(self.result.skipped)
            self.progress.update("photos", done, total, f"{skipped:,} skipped" if skipped else "")
        if now - self.saved > SAVE_INTERVAL:
            self.saved = now
            self._save_progress(done, total)

    def _save_progress(self, done: int, total: int, finished: bool = False) -> None:
        rate = done / max(time.monotonic() - self.started, 1e-9)
        progress = {"done": done, "total": total, "rate": rate, "finished": finished}
        self.catalog.set_info("indexing", progress)


def _record(read: ReadResult, status: str) -> FileRecord:
    file = read.file
    real_path = os.path.realpath(file.path)
    return FileRecord(
        file.path, file.size, file.mtime_ns, read.digest, status, read.reason, real_path
    )
