"""Reading one image for the index: content hash, metadata and pixels.

A file is read once; whatever is wrong with it becomes a reason.
"""

from __future__ import annotations

import hashlib
import io
import os
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from torch import Tensor

from diverset.data.image_files import HEIC_SUFFIXES
from diverset.data.image_limits import MAX_FILE_BYTES
from diverset.data.images import allow_heic, formats
from diverset.data.preprocess import Preprocess
from diverset.data.raw_images import is_raw, raw_metadata
from diverset.data.walking import ImageFile
from diverset.errors import DataError, MissingExtraError, NotFoundError, import_extra
from diverset.index.checks import MAX_ID_LENGTH
from diverset.photos.library.catalog import FileRecord
from diverset.runtime.bounded_read import read_file

ORIENTATION, EXIF, DATE_TAKEN, DATE_CHANGED = 0x0112, 0x8769, 0x9003, 0x0132
ROTATED = (5, 6, 7, 8)  # EXIF orientations that swap width and height


@dataclass(frozen=True, eq=False)
class ReadResult:
    """A file that was read."""

    file: ImageFile
    digest: str = ""
    pixels: Tensor | None = None  # None if the content is indexed already or unreadable
    copy_of: str | None = None  # an indexed path with the same content
    metadata: dict[str, Any] = field(default_factory=dict)
    reason: str = ""  # why it cannot be read
    transient: bool = False  # the reason may lie outside the file: the next run tries again


def read_image(
    file: ImageFile, preprocess: Preprocess, path_with_digest: Callable[[str], str | None]
) -> ReadResult:
    """Read a file; content that is indexed already is not decoded again.

    `path_with_digest` returns the indexed path with a content hash, if there is one.
    """
    try:
        _check(file)
        data = read_file(file.path, MAX_FILE_BYTES)
        digest = _digest(data)
        copy_of = path_with_digest(digest)
        if copy_of is not None:
            return ReadResult(file, digest, copy_of=copy_of, metadata=file_metadata(file))
        image = preprocess.open(file.path, data)
        metadata = {**file_metadata(file), **image_metadata(file.path, data)}
        return ReadResult(file, digest, preprocess.pixels(image), metadata=metadata)
    except MissingExtraError as error:
        return ReadResult(file, reason=str(error), transient=True)
    except DataError as error:  # the path is shown beside the reason
        return ReadResult(file, reason=" ".join(str(error).replace(file.path, "").split()))
    except OSError as error:
        return ReadResult(file, reason=f"cannot be read ({error.strerror})", transient=True)
    except MemoryError:
        return ReadResult(file, reason="does not fit in memory", transient=True)
    except Exception as error:  # one file must not stop the others, nor lose a good stored set
        reason = f"cannot be read ({type(error).__name__}: {error})"
        return ReadResult(file, reason=reason, transient=True)


def read_indexed(file: FileRecord) -> bytes:
    """The bytes that were indexed; a file that has other content by now is never returned."""
    try:
        data = read_file(file.path, MAX_FILE_BYTES)
    except (DataError, OSError) as error:
        raise NotFoundError("the file cannot be read any more; run diverset index") from error
    if _digest(data) != file.digest:
        raise NotFoundError("the file has changed since it was indexed; run diverset index")
    return data


def file_metadata(file: ImageFile) -> dict[str, Any]:
    """What the file system says about an image, for filters."""
    folder, name = os.path.split(file.path)
    modified = datetime.fromtimestamp(file.mtime_ns / 1e9, UTC)
    return {
        "path": file.path,
        "folder": folder,
        "name": name,
        "bytes": file.size,
        "modified": modified.strftime("%Y-%m-%dT%H:%M:%S"),
    }


def image_metadata(path: str, data: bytes) -> dict[str, Any]:
    """What the image says about itself: its upright size, and when it was taken."""
    if is_raw(path):
        return raw_metadata(data)
    pillow = import_extra("PIL.Image", "data")
    with pillow.open(io.BytesIO(data), formats=formats()) as image:
        width, height = image.size
        try:
            tags = image.getexif()
            stamp = tags.get_ifd(EXIF).get(DATE_TAKEN) or tags.get(DATE_CHANGED)
            rotated = tags.get(ORIENTATION) in ROTATED
        except Exception:  # a damaged tag does not make the image unreadable
            stamp, rotated = None, False
    if rotated:
        width, height = height, width
    taken = iso_date(stamp)
    return {"width": width, "height": height, **({"taken": taken} if taken else {})}


def iso_date(stamp: object) -> str | None:
    """An EXIF time in ISO format; None if it is not a time.

    >>> iso_date("2021:07:04 12:30:00"), iso_date("0000:00:00 00:00:00")
    ('2021-07-04T12:30:00', None)
    """
    try:
        taken = datetime.strptime(str(stamp).strip("\0 ")[:19], "%Y:%m:%d %H:%M:%S")
    except ValueError:
        return None
    return taken.strftime("%Y-%m-%dT%H:%M:%S")


def _digest(data: bytes) -> str:
    return hashlib.blake2b(data, digest_size=16).hexdigest()


def _check(file: ImageFile) -> None:
    if len(file.path) > MAX_ID_LENGTH:
        raise DataError(f"the path has more than {MAX_ID_LENGTH} characters; rename it")
    if file.size > MAX_FILE_BYTES:
        limit = MAX_FILE_BYTES // 2**20
        raise DataError(f"{file.size / 2**20:,.0f} MiB; at most {limit} are allowed")
    if not file.size:
        raise DataError("the file is empty")
    if file.path.lower().endswith(HEIC_SUFFIXES) and not allow_heic():
        raise MissingExtraError("HEIC needs an extra: pip install 'diverset[heic]'")
    if is_raw(file.path):
        import_extra("rawpy", "raw")
