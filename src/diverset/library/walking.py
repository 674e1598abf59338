"""Finding the pictures under a folder.

Hidden files and folders are left alone, and so is the library itself. Links to folders are
followed, each folder is entered once whatever leads to it, so that links that go round in circles
end. Folders that cannot be read are named. Files are not opened here.
"""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

SUFFIXES = (
    ".jpg", ".jpeg", ".jpe", ".jfif", ".png", ".webp", ".gif", ".bmp", ".tif", ".tiff",
)  # fmt: skip
HEIC = (".heic", ".heif", ".hif")


@dataclass(frozen=True, slots=True)
class Found:
    """A picture file as the file system describes it."""

    path: str
    size: int
    mtime_ns: int


@dataclass
class Walk:
    """One way through some folders; iterate over it, then look at `unreadable`.

    Attributes:
        roots: where to begin.
        avoid: folders that are never entered.
        unreadable: folders that could not be read, and why.
    """

    roots: Sequence[Path]
    avoid: Sequence[Path] = ()
    unreadable: dict[str, str] = field(default_factory=dict)
    _seen: set[tuple[int, int]] = field(default_factory=set)

    def __iter__(self) -> Iterator[Found]:
        for own in self.avoid:
            if own.exists():
                self._enter(own.stat())
        todo = deque(str(root) for root in self.roots)
        linked: deque[str] = deque()  # later, so that a folder is known by its own name if it can
        while todo or linked:
            folder = (todo or linked).popleft()
            try:
                if self._enter(os.stat(folder)):
                    yield from self._inside(folder, todo, linked)
            except OSError as error:
                self.unreadable[folder] = error.strerror or str(error)

    def _enter(self, stat: os.stat_result) -> bool:
        """Whether a folder is new; it is not from now on."""
        which = (stat.st_dev, stat.st_ino)
        if which in self._seen:
            return False
        self._seen.add(which)
        return True

    def _inside(self, folder: str, todo: deque[str], linked: deque[str]) -> Iterator[Found]:
        with os.scandir(folder) as entries:
            for entry in sorted(entries, key=lambda one: one.name):
                if entry.name.startswith("."):
                    continue
                try:
                    if entry.is_dir():
                        (linked if entry.is_symlink() else todo).append(entry.path)
                    elif entry.is_symlink() and not os.path.exists(entry.path):
                        self.unreadable[entry.path] = "is a link that leads nowhere now"
                    elif entry.name.lower().endswith(SUFFIXES + HEIC) and entry.is_file():
                        stat = entry.stat()
                        yield Found(entry.path, stat.st_size, _sane(stat.st_mtime_ns))
                except OSError as error:  # gone or forbidden in this very moment
                    self.unreadable[entry.path] = error.strerror or str(error)

    def misses(self, path: str) -> bool:
        """Whether a path lies where this walk could not look."""
        return any(path == one or path.startswith(one + os.sep) for one in self.unreadable)


def _sane(nanoseconds: int) -> int:
    """A time that databases and calendars can hold: clocks can be wrong by thousands of years."""
    return min(max(nanoseconds, 0), 2**63 - 1)
