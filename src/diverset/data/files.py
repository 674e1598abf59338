"""Opening text and JSON files so that every failure names the file, and writing them whole.

It does not know what any of the files mean.
"""

import json
import os
from pathlib import Path
from typing import Any

from diverset.errors import DataError


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
    """The lines of a text file, stripped; blank lines at the end do not count."""
    # str.splitlines would also cut at U+2028 and the like, which captions may contain.
    return [line.strip() for line in read_text(file).rstrip().split("\n")]


def read_json_object(file: str | Path) -> dict[str, Any]:
    """The object that a JSON file holds."""
    try:
        content = json.loads(read_text(file))
    except json.JSONDecodeError as error:
        raise DataError(
            f"{file} is not complete JSON ({error.msg} at line {error.lineno}); download it again"
        ) from error
    except RecursionError as error:
        raise DataError(f"{file} is nested too deeply to be a dataset; check it") from error
    if not isinstance(content, dict):
        raise DataError(f"{file} holds a {type(content).__name__}, not a JSON object; check it")
    return content


def write_durably(target: Path, data: bytes) -> None:
    """All or nothing: after a crash the file is the old one or the new one."""
    beside = target.with_name(target.name + ".part")
    with open(beside, "wb") as file:
        file.write(data)
    replace_durably(beside, target)


def replace_durably(written: Path, target: Path) -> None:
    """Give a finished file beside the target its name; both are on disk when it returns."""
    with open(written, "rb") as file:
        os.fsync(file.fileno())
    os.replace(written, target)
    directory = os.open(target.parent, os.O_RDONLY)
    try:
        os.fsync(directory)
    finally:
        os.close(directory)
