"""Errors of an index: of SQLite and of the file system, with what to do about them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from diverset.errors import IndexFileError
from diverset.index.schema import FILE, FORMAT, REPAIR
from diverset.runtime.sqlite import BUSY_TIMEOUT, DATABASE_ERRORS


class StaleReadError(IndexFileError):
    """The data changed while it was read; the same call, repeated, reads the current state."""


def no_index(folder: Path) -> IndexFileError:
    inside = [str(file.parent) for file in sorted(folder.glob(f"*/{FILE}"))]  # a photo library
    next_step = (
        f"it contains folders that do: {', '.join(inside)}"
        if inside
        else "check the path, or create one with SetIndex.create, diverset store load-shards or "
        "diverset store copy"
    )
    return IndexFileError(f"{folder} holds no index; {next_step}")


def other_format(folder: Path, version: object) -> IndexFileError:
    return IndexFileError(
        f"{folder} has format {version}, this version of diverset reads format {FORMAT}; "
        "index the collection again, or install the version of diverset that wrote it"
    )


@contextmanager
def translate_errors(folder: Path) -> Iterator[None]:
    """Errors of the file system and of SQLite as errors that say what to do."""
    try:
        yield
    except DATABASE_ERRORS as error:
        raise IndexFileError(f"{folder}: {error}; {_next_step(str(error))}") from error
    except OSError as error:
        raise IndexFileError(
            f"{folder}: {error.strerror}; check the path, its permissions and the free space"
        ) from error


def _next_step(message: str) -> str:
    for words, step in {
        "full": "nothing of this call was stored: free some space and repeat it",
        "disk I/O": "check the disk and its free space, then run diverset store verify",
        "readonly": "the folder is read-only: copy it to a writable location",
        "read-only": "the folder is read-only: copy it to a writable location",
        "unable to open": "check its permissions",
        "already exists": "another process created it at the same time: open it",
        "closed": "open the index again",
        "malformed": f"{FILE} is damaged: {REPAIR}",
        "not a database": f"{FILE} is damaged: {REPAIR}, or restore a snapshot",
        "locked": f"another process has been writing for {BUSY_TIMEOUT:.0f} s: wait and repeat",
    }.items():
        if words in message:
            return step
    return "run diverset store verify"
