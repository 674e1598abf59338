"""Read text and JSON with errors that name the file; write files atomically and durably."""

import json
import os
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from diverset.errors import DataError

try:
    import fcntl
except ImportError:  # Windows
    fcntl = None  # type: ignore[assignment]


def read_text(file: str | Path) -> str:
    """The text of a UTF-8 file, with or without a byte-order mark."""
    try:
        return Path(file).read_text(encoding="utf-8-sig")
    except OSError as error:
        raise DataError(f"cannot read {file}: {error.strerror}; check the path") from error
    except UnicodeDecodeError as error:
        raise DataError(
            f"{file} is not UTF-8 at byte {error.start}; save it again as UTF-8"
        ) from error


def read_lines(file: str | Path) -> list[str]:
    """The stripped lines of a text file, without blank lines at the end."""
    # str.splitlines would also split at U+2028 and the like, which captions may contain.
    return [line.strip() for line in read_text(file).rstrip().split("\n")]


def read_json_object(file: str | Path, next_step: str = "download it again") -> dict[str, Any]:
    """The object in a JSON file; `next_step` ends the error message for a broken file."""
    try:
        content = json.loads(read_text(file))
    except json.JSONDecodeError as error:
        raise DataError(
            f"{file} is not complete JSON ({error.msg} at line {error.lineno}); {next_step}"
        ) from error
    except RecursionError as error:
        raise DataError(f"{file} is nested too deeply to be read; {next_step}") from error
    if not isinstance(content, dict):
        raise DataError(f"{file} holds a {type(content).__name__}, not a JSON object; {next_step}")
    return content


def load_array(file: str | Path, mmap_mode: Any = None) -> NDArray[Any]:
    """The array in a .npy file, memory-mapped if a mode is given."""
    try:
        array: NDArray[Any] = np.load(file, mmap_mode, allow_pickle=False)
    except Exception as error:  # numpy's reader of damaged headers raises nearly anything
        raise DataError(
            f"cannot read {file} as .npy ({error}); it is missing, damaged or in another format: "
            "check the path, or write it again"
        ) from error
    return array


def write_json(target: Path, content: Any) -> None:
    """Write indented JSON; see `write_durably`."""
    write_durably(target, (json.dumps(content, indent=2) + "\n").encode())


def write_durably(target: Path, data: bytes) -> None:
    """Write all or nothing: after a crash the file has its old or its new content."""
    temporary = target.with_name(target.name + ".part")
    with open(temporary, "wb") as file:
        file.write(data)
    replace_durably(temporary, target)


def replace_durably(temporary: Path, target: Path) -> None:
    """Rename a finished file in the same folder; content and name are on disk on return."""
    with open(temporary, "rb+") as file:  # Windows flushes only files that are open for writing
        sync(file.fileno())
    os.replace(temporary, target)
    sync_folder(target.parent)


def sync(descriptor: int) -> None:
    """Bring the content of an open file to the disk."""
    if hasattr(fcntl, "F_FULLFSYNC"):  # macOS: fsync leaves data in the cache of the disk
        with suppress(OSError):  # a network file system may not know it
            fcntl.fcntl(descriptor, fcntl.F_FULLFSYNC)
            return
    os.fsync(descriptor)


def sync_folder(folder: Path) -> None:
    """Bring the names of files to the disk; Windows does so by itself and opens no folders."""
    if hasattr(os, "O_DIRECTORY"):
        directory = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
        try:
            sync(directory)
        finally:
            os.close(directory)


def delete_unused(file: Path) -> None:
    """Delete a file, unless it is in use on a system that does not delete open files.

    The next sweep of the folder tries again.
    """
    with suppress(PermissionError):
        file.unlink(missing_ok=True)
