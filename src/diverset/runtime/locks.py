"""A lock file that keeps two processes from writing to the same folder."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from filelock import FileLock, Timeout

from diverset.errors import LockedError


@contextmanager
def file_lock(path: Path, message: str) -> Iterator[None]:
    """Hold the lock, or raise `LockedError(message)` at once where another process holds it.

    The operating system releases the lock when the process ends, even if it is killed.
    """
    lock = FileLock(path, timeout=0)
    try:
        lock.acquire()
    except Timeout:
        raise LockedError(message) from None
    try:
        yield
    finally:
        lock.release()


def is_locked(path: Path) -> bool:
    """Whether a process holds the lock; False where the lock file may not be opened."""
    if not path.exists():
        return False
    try:
        with file_lock(path, ""):
            return False
    except LockedError:
        return True
    except PermissionError:
        return False
