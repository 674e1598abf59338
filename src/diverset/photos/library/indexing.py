"""Update a library from its folders: only changed files are read, only new content is encoded.

A file counts as unchanged if size and time are the same. The content of the others is hashed: if
it is indexed already, as after a move or a copy, its set is reused. Every batch is durable, so a
kill loses at most the batches in work. Missing files are removed last, because a moved file reuses
the set of its old path; where a folder could not be read, nothing is removed.
"""

from __future__ import annotations

import os
import time
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path

from diverset.data.walking import ImageFile, Walk, is_within
from diverset.errors import DataError
from diverset.index.filter_language import is_storable
from diverset.photos.library.catalog import PENDING, FileRecord
from diverset.photos.library.library import Library
from diverset.photos.library.quick_repair import quick_repair
from diverset.photos.library.result import IndexingResult
from diverset.runtime.progress import Progress

BATCH = 16


def index_folders(
    library: Library,
    folders: Sequence[str | Path] = (),
    progress: Progress | None = None,
    workers: int | None = None,
    batch: int = BATCH,
) -> IndexingResult:
    """Index folders, or all folders of the library.

    Args:
        library: opened by `Library.open_or_create`.
        folders: added to the library; if empty, all folders of the library are indexed.
        progress: updated after every batch.
        workers: threads that read and encode batches; default: one per core.
        batch: images per batch; a kill loses about two batches per worker at most.
    """
    roots = [_check_folder(Path(os.path.abspath(Path(folder).expanduser()))) for folder in folders]
    for root in roots:
        library.catalog.add_root(root)
    started, result = time.monotonic(), IndexingResult(repaired=quick_repair(library))
    walk = Walk(roots or library.catalog.roots, avoid=[library.folder])
    files = _storable_files(walk, result)
    records = {record.path: record for record in library.catalog.files()}
    _protect_missing_roots(walk, files, records)
    changed = [
        file
        for file in files
        if file.path not in records or not records[file.path].is_unchanged(file)
    ]
    result.total, result.unchanged = len(files), len(files) - len(changed)
    _record_left_out(library, walk, result)
    if changed:  # torch is not imported where nothing has changed
        from diverset.photos.library.indexing_job import IndexingJob

        IndexingJob(library, result, progress, batch).run(changed, workers)
    present = {file.path for file in files}
    missing = [
        record
        for path, record in records.items()
        if path not in present and is_within(path, walk.roots) and not walk.is_unreadable(path)
    ]
    remove_files(library, missing)
    result.removed = len(missing)
    result.seconds = time.monotonic() - started
    return result


def remove_files(library: Library, records: Sequence[FileRecord]) -> None:
    """Remove files from the library; the files themselves are not touched."""
    if records:
        paths = [record.path for record in records]
        # Pending first: a file that is back after a kill in between counts as changed.
        library.catalog.put_files(replace(record, status=PENDING) for record in records)
        library.images.delete(paths)
        library.catalog.remove_files(paths)


def _storable_files(walk: Walk, result: IndexingResult) -> list[ImageFile]:
    """The image files of a walk; those whose names cannot be stored are skipped."""
    files = []
    for file in walk:
        if is_storable(file.path):
            files.append(file)
        else:
            result.skipped[file.path] = "the name is not UTF-8; rename it"
    return files


def _record_left_out(library: Library, walk: Walk, result: IndexingResult) -> None:
    """Record what the walk could not read, and how many files are not images."""
    result.skipped.update(walk.unreadable | walk.special)
    library.set_unlisted(result.skipped, walk.roots)
    ignored = {str(root): walk.ignored_below(root) for root in walk.roots}
    known = library.catalog.info.get("ignored", {})
    if not ignored.items() <= known.items():
        library.catalog.set_info("ignored", {**known, **ignored})
    result.ignored = sum(walk.ignored.values(), Counter())


def _protect_missing_roots(walk: Walk, files: Sequence[ImageFile], known: Iterable[str]) -> None:
    """Mark indexed folders that are missing or suddenly empty as unreadable.

    Their images stay in the library: the disk may just not be connected.
    """
    for root in walk.roots:
        if any(is_within(file.path, [root]) for file in files):
            continue
        indexed = sum(is_within(path, [root]) for path in known)
        if indexed:
            reason = walk.unreadable.get(str(root), "has no images any more")
            walk.unreadable[str(root)] = (
                f"{reason}; its {indexed:,} indexed files stay in the library, in case a disk is "
                f"not connected. If they are deleted for good: diverset index --forget {root}"
            )


def _check_folder(folder: Path) -> Path:
    if not folder.is_dir():
        raise DataError(
            f"there is no folder {folder}; check the path. Images indexed from it stay in the "
            "library, in case a disk is not connected"
        )
    if not is_storable(str(folder)):
        raise DataError(f"the name of the folder {str(folder)!r} is not UTF-8; rename it")
    return folder
