"""Keeping a library up to date by polling, which works on every file system.

Polling 10,000 unchanged files takes a fraction of a second and opens none of them.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from itertools import count, islice
from pathlib import Path

from diverset.errors import DataError, IndexFileError, LockedError, RebuiltError
from diverset.photos.library.indexing import index_folders
from diverset.photos.library.library import Library
from diverset.photos.library.result import IndexingResult


def watch(
    library: Library,
    folders: Sequence[str | Path],
    interval: float,
    report: Callable[[str], None],
    rounds: int | None = None,
) -> None:
    """Index changes until interrupted, or for some rounds, and report them.

    `folders` may be missing at first; if there are none, all of the library are watched. `interval`
    is the time in seconds between the end of a round and the next.
    """
    names = {str(folder) for folder in folders}
    reported: set[str] = set()  # folders that were missing in the round before
    skipped: dict[str, str] = {}
    last_error = ""
    for number in islice(count(), rounds):
        if number:
            time.sleep(interval)
        missing = {name for name in names if not Path(name).expanduser().is_dir()}
        for name in sorted(missing - reported):
            report(
                f"there is no folder {name}; check the path. If its disk is not connected: its "
                "indexed images stay in the library, and it is watched once it is there"
            )
        reported = missing
        try:
            with library.indexing_lock():
                if names and missing == names:
                    continue
                result = index_folders(library, sorted(names - missing))
            last_error = ""
        except RebuiltError:  # continuing would mix sets of two models
            raise
        except (DataError, IndexFileError, LockedError) as error:
            if str(error) != last_error:
                report(str(error))
            last_error = str(error)
            continue
        _report_changes(result, skipped, report)
        skipped = result.skipped


def _report_changes(
    result: IndexingResult, skipped: Mapping[str, str], report: Callable[[str], None]
) -> None:
    """Report what a round did; `skipped` is what the round before has reported."""
    for action in result.repaired:
        report(f"repaired: {action}")
    new = {path: why for path, why in result.skipped.items() if skipped.get(path) != why}
    if result.encoded or result.reused or result.removed or new:
        report(str(result))
    for path, reason in new.items():
        report(f"skipped {path}: {reason}")
