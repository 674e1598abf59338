"""Finding the image files under a folder, for `diverset index` and `diverset encode`.

Hidden files and folders are left out. Links to folders are followed; every folder is entered once,
whichever path leads to it, so circular links end. Folders that cannot be read are reported.
"""

from __future__ import annotations

import os
from collections import Counter, deque
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from diverset.data.image_files import IMAGE_SUFFIXES
from diverset.runtime.bounded_read import kind_of

NO_SUFFIX = "without a suffix"


@dataclass(frozen=True, slots=True)
class ImageFile:
    """An image file as the file system describes it."""

    path: str
    size: int
    mtime_ns: int


@dataclass
class Walk:
    """One pass over folders; iterate over it, then read what it left out."""

    roots: Sequence[Path]
    avoid: Sequence[Path] = ()  # folders that are never entered
    unreadable: dict[str, str] = field(default_factory=dict)  # paths, with the reason
    ignored: dict[str, Counter[str]] = field(default_factory=dict)  # by folder and suffix
    special: dict[str, str] = field(default_factory=dict)  # pipes, sockets, devices: their kind
    _entered: set[tuple[int, int]] = field(default_factory=set)

    def __iter__(self) -> Iterator[ImageFile]:
        for folder in self.avoid:
            if folder.exists():
                self._enter(folder.stat())
        folders = deque(str(root) for root in self.roots)
        linked: deque[str] = deque()  # later, so that a folder is entered by its own path first
        while folders or linked:
            path = (folders or linked).popleft()
            try:
                if self._enter(os.stat(path)):
                    yield from self._files_in(path, folders, linked)
            except OSError as error:
                self.unreadable[path] = error.strerror or str(error)

    def _enter(self, stat: os.stat_result) -> bool:
        """Mark a folder as entered; False if it was already."""
        inode = (stat.st_dev, stat.st_ino)
        if inode in self._entered:
            return False
        self._entered.add(inode)
        return True

    def _files_in(
        self, folder: str, folders: deque[str], linked: deque[str]
    ) -> Iterator[ImageFile]:
        with os.scandir(folder) as entries:
            for entry in sorted(entries, key=lambda entry: entry.name):
                if entry.name.startswith("."):
                    continue
                try:
                    if entry.is_dir():
                        (linked if entry.is_symlink() else folders).append(entry.path)
                    elif entry.is_symlink() and not os.path.exists(entry.path):
                        self.unreadable[entry.path] = "broken link"
                    elif not entry.is_file():
                        self.special[entry.path] = f"a {kind_of(entry.stat().st_mode)}, not a file"
                    elif entry.name.lower().endswith(IMAGE_SUFFIXES):
                        stat = entry.stat()
                        yield ImageFile(entry.path, stat.st_size, _clamp_time(stat.st_mtime_ns))
                    else:
                        kind = os.path.splitext(entry.name)[1].lower() or NO_SUFFIX
                        self.ignored.setdefault(folder, Counter())[kind] += 1
                except OSError as error:  # removed or locked since the folder was listed
                    self.unreadable[entry.path] = error.strerror or str(error)

    def ignored_below(self, root: Path) -> Counter[str]:
        """Number of files under a root that are not images, by kind."""
        total: Counter[str] = Counter()
        for folder, kinds in self.ignored.items():
            if is_within(folder, [root]):
                total += kinds
        return total

    def is_unreadable(self, path: str) -> bool:
        """Whether a path lies where this walk could not look."""
        return is_within(path, self.unreadable)


def is_within(path: str, roots: Iterable[str | Path]) -> bool:
    """Whether a path is one of these folders or files, or lies in one of them.

    >>> [is_within(path, ["/a/b"]) for path in ("/a/b/c.jpg", "/a/b", "/a/bc.jpg")]
    [True, True, False]
    """
    separated = (str(root).rstrip(os.sep) + os.sep for root in roots)
    return any((path + os.sep).startswith(root) for root in separated)


def _clamp_time(nanoseconds: int) -> int:
    """A time that SQLite and datetime can hold: file times can be wrong by thousands of years."""
    return min(max(nanoseconds, 0), 2**63 - 1)
