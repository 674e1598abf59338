"""Reading one picture for the index: content hash, what is known of it, and its pixels.

A file is read once; whatever is wrong with it becomes a reason. Networks are not run here.
"""

from __future__ import annotations

import hashlib
import io
import os
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from torch import Tensor

from diverset.data.images import allow_heic, formats, open_picture
from diverset.data.preprocess import Preprocess
from diverset.errors import DataError, MissingExtraError, import_extra
from diverset.index.checks import LONGEST_ID
from diverset.library.walking import HEIC, Found

LARGEST = 512 * 2**20  # bytes; no photograph is larger
ORIENTATION, EXIF, TAKEN, CHANGED = 0x0112, 0x8769, 0x9003, 0x0132
TURNED = (5, 6, 7, 8)  # orientations that stand on their side


@dataclass(frozen=True, eq=False)
class Read:
    """A picture that was read: `pixels`, or `same` content as another path, or a `reason`."""

    found: Found
    digest: str = ""
    pixels: Tensor | None = None
    same: str | None = None
    metadata: dict[str, Any] = field(default_factory=dict)
    reason: str = ""
    passing: bool = False  # the reason is not in the file, so that it is read again next time


def read_picture(found: Found, preprocess: Preprocess, known: Callable[[str], str | None]) -> Read:
    """Read a file; one whose content is known already is not decoded again.

    Args:
        found: the file.
        preprocess: what the network wants.
        known: from the hash of a content to a path that has it in the index.
    """
    try:
        _check(found)
        data = Path(found.path).read_bytes()
        digest = hashlib.blake2b(data, digest_size=16).hexdigest()
        same = known(digest)
        if same is not None:
            return Read(found, digest, same=same, metadata=place_of(found))
        picture = open_picture(found.path, at_least=preprocess.wanted, data=data)
        metadata = {**place_of(found), **about(data)}
        return Read(found, digest, preprocess.pixels(picture), metadata=metadata)
    except MissingExtraError as error:
        return Read(found, reason=str(error), passing=True)
    except DataError as error:  # the path is told beside the reason
        return Read(found, reason=" ".join(str(error).replace(found.path, "").split()))
    except OSError as error:
        return Read(found, reason=f"cannot be read ({error.strerror})", passing=True)
    except MemoryError:
        return Read(found, reason="does not fit in memory", passing=True)
    except Exception as error:  # whatever one file brings about, the others go on
        return Read(found, reason=f"cannot be read ({type(error).__name__}: {error})")


def place_of(found: Found) -> dict[str, Any]:
    """What the file system tells of a picture, for filters."""
    folder, name = os.path.split(found.path)
    changed = datetime.fromtimestamp(found.mtime_ns / 1e9, UTC)
    return {
        "path": found.path,
        "folder": folder,
        "name": name,
        "bytes": found.size,
        "modified": changed.strftime("%Y-%m-%dT%H:%M:%S"),
    }


def about(data: bytes) -> dict[str, Any]:
    """What the picture tells of itself: its size when upright, and when it was taken."""
    pillow = import_extra("PIL.Image", "data")
    with pillow.open(io.BytesIO(data), formats=formats()) as picture:
        width, height = picture.size
        try:
            tags = picture.getexif()
            stamp = tags.get_ifd(EXIF).get(TAKEN) or tags.get(CHANGED)
            turned = tags.get(ORIENTATION) in TURNED
        except Exception:  # a damaged tag says nothing about the picture
            stamp, turned = None, False
    found: dict[str, Any] = {"width": width, "height": height}
    if turned:
        found = {"width": height, "height": width}
    taken = iso_date(stamp)
    return {**found, "taken": taken} if taken else found


def iso_date(stamp: object) -> str:
    """EXIF's way to write a time in the usual one; empty where it is none.

    >>> iso_date("2021:07:04 12:30:00"), iso_date("0000:00:00 00:00:00")
    ('2021-07-04T12:30:00', '')
    """
    try:
        taken = datetime.strptime(str(stamp).strip("\0 ")[:19], "%Y:%m:%d %H:%M:%S")
    except ValueError:
        return ""
    return taken.strftime("%Y-%m-%dT%H:%M:%S")


def _check(found: Found) -> None:
    if len(found.path) > LONGEST_ID:
        raise DataError(f"its path has more than {LONGEST_ID} characters; rename it")
    if found.size > LARGEST:
        raise DataError(f"it has {found.size / 2**20:,.0f} MiB, {LARGEST // 2**20} are allowed")
    if not found.size:
        raise DataError("it is empty")
    if found.path.lower().endswith(HEIC) and not allow_heic():
        raise MissingExtraError("HEIC needs an extra; pip install 'diverset[heic]'")
