"""Read a whole file that others may have put there: once, by its descriptor, up to a size.

What is checked is what is read: a file that is replaced by a link, a pipe or a larger file after a
check by path would be read all the same.
"""

from __future__ import annotations

import os
import stat
from pathlib import Path

from diverset.errors import DataError

# Without O_NONBLOCK, opening a pipe waits for a writer. Windows has no such flag, but O_BINARY.
FLAGS = os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)


def read_file(path: str | Path, max_bytes: int) -> bytes:
    """The content of a regular file; any other kind, or a larger one, is a `DataError`.

    A file that is missing or cannot be read is an `OSError`.
    """
    try:
        with open(path, "rb", opener=lambda name, _: os.open(name, FLAGS)) as file:
            status = os.fstat(file.fileno())
            if not stat.S_ISREG(status.st_mode):
                raise DataError(f"{path} is a {kind_of(status.st_mode)}; give a file")
            data = file.read(status.st_size) if status.st_size <= max_bytes else None
    except IsADirectoryError as error:
        raise DataError(f"{path} is a folder; give a file") from error
    except ValueError as error:  # a NUL in the path
        raise DataError(f"{str(path)!r} is not a path ({error}); give one") from error
    if data is None:
        raise DataError(f"{path} has more than {max_bytes / 2**20:,.0f} MiB; give a smaller file")
    return data


def kind_of(mode: int) -> str:
    """What a file is, if it is not regular.

    >>> kind_of(stat.S_IFIFO), kind_of(stat.S_IFCHR), kind_of(stat.S_IFDIR)
    ('named pipe', 'device', 'folder')
    """
    if stat.S_ISDIR(mode):
        return "folder"
    if stat.S_ISFIFO(mode):
        return "named pipe"
    return "socket" if stat.S_ISSOCK(mode) else "device"
