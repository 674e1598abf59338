"""Keeping a library up to date by polling, which works on every file system.

Polling 10,000 unchanged files takes a fraction of a second and opens none of them.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from pathlib import Path

from diverset.errors import DataError, IndexFileError, LockedError, RebuiltError
from diverset.photos.library.indexing import index_folders
from diverset.photos.library.library import Library


def watch(
    library: Library,
    folders: Sequence[str | Path],
    interval: float,
    report: Callable[[str], None],
    rounds: int | None = None,
) -> None:
    """Index changes until interrupted.

    Args:
        library: opened by `Library.open_or_create`.
        folders: to watch; if empty, all of the library.
        interval: seconds between the end of a round and the next.
        report: called with a message when something changed.
        rounds: default: no limit.
    """
    skipped: dict[str, str] = {}
    last_error = ""
    while rounds is None or rounds > 0:
        try:
            with library.indexing_lock():
                result = index_folders(library, folders)
            newly_skipped = result.skipped.keys() - skipped.keys()
            for action in result.repaired:
                report(f"repaired: {action}")
            if result.encoded or result.reused or result.removed or newly_skipped:
                report(str(result))
            for path, reason in result.skipped.items():
                if skipped.get(path) != reason:
                    report(f"skipped {path}: {reason}")
            skipped, last_error = dict(result.skipped), ""
        except RebuiltError:  # continuing would mix sets of two models
            raise
        # A disk is not connected, or another process is indexing.
        except (DataError, IndexFileError, LockedError) as error:
            if str(error) != last_error:
                report(str(error))
            last_error = str(error)
        if rounds is not None:
            rounds -= 1
        if rounds != 0:
            time.sleep(interval)
