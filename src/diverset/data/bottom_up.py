"""Bottom-up-attention TSV files: boxes and region features, a varying number per image.

A line has image_id, image_w, image_h, num_boxes, boxes and features, the last two as base64 of
little-endian float32. The files are scanned once for the offset of each line; features are decoded
on access.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from diverset.errors import DataError, a_few

_FIELDS = ("image_id", "image_w", "image_h", "num_boxes", "boxes", "features")
_FLOAT = np.dtype("<f4")


class _Line(NamedTuple):
    """Position of the line of an image, its number of boxes and the width of their features."""

    file: int
    offset: int
    length: int
    boxes: int
    width: int


class BottomUpRegions:
    """Region features of the given images, in the given order.

    A file is opened for each read. That costs little compared to decoding a line, and makes the
    object safe to share between threads, forks and pickles.

    Args:
        files: TSV files.
        image_ids: the images to read. If an id has several lines, the first is used.
    """

    def __init__(self, files: Sequence[Path], image_ids: Sequence[str]) -> None:
        self.files, self.image_ids = tuple(files), tuple(image_ids)
        index, example = _index(self.files, set(self.image_ids))
        missing = [image for image in self.image_ids if image not in index]
        if missing:
            raise DataError(
                f"{len(missing)} of {len(self.image_ids)} images are not in "
                f"{a_few([str(file) for file in self.files])}: {a_few(missing)}; the files "
                f"have ids such as {example!r}, make the ids agree or add the missing file"
            )
        if not self.image_ids:
            raise DataError("no image ids given; name the images whose regions to read")
        lines = [index[image] for image in self.image_ids]
        for image, line in zip(self.image_ids, lines, strict=True):
            if line.width != lines[0].width:
                raise DataError(
                    f"image {image!r} in {self.files[line.file]} has regions of width "
                    f"{line.width}, image {self.image_ids[0]!r} of width {lines[0].width}; "
                    "use files of one detector"
                )
        # One compact array: a list of objects would be copied into every worker process.
        self._lines = np.array(lines, dtype=np.int64)

    @property
    def width(self) -> int:
        return int(self._lines[0, 4])

    def __len__(self) -> int:
        return len(self._lines)

    def __getitem__(self, index: int, /) -> NDArray[np.float32]:
        line = _Line(*self._lines[index].tolist())
        file, image = self.files[line.file], self.image_ids[index]
        try:
            with file.open("rb") as stream:
                stream.seek(line.offset)
                fields = stream.read(line.length).split(b"\t")
            content = base64.b64decode(fields[5].strip(), validate=True)
            # A copy, because an array over bytes is read-only and tensors warn about that.
            return np.frombuffer(content, _FLOAT).reshape(line.boxes, line.width).astype(np.float32)
        except (OSError, IndexError, binascii.Error, ValueError) as error:
            raise DataError(
                f"the features of image {image!r} in {file} cannot be decoded ({error}); "
                "the file has changed or is damaged, download it again"
            ) from error


def _index(files: Sequence[Path], image_ids: set[str]) -> tuple[dict[str, _Line], str | None]:
    """Find the lines of these images, and an example of the ids in the files."""
    index: dict[str, _Line] = {}
    example: str | None = None
    for number, file in enumerate(files):
        for offset, line in _lines_of(file):
            image = line.split(b"\t", 1)[0].decode("utf-8", "replace").strip()
            example = example or image
            if image in image_ids and image not in index:
                boxes, width = _measure(file, image, line)
                index[image] = _Line(number, offset, len(line), boxes, width)
                if len(index) == len(image_ids):
                    return index, example
    return index, example


def _lines_of(file: Path) -> Iterator[tuple[int, bytes]]:
    try:
        with file.open("rb") as stream:
            offset = 0
            for line in stream:
                if line.strip():
                    yield offset, line
                offset += len(line)
    except OSError as error:
        raise DataError(f"cannot read {file}: {error.strerror}; check the path") from error


def _measure(file: Path, image: str, line: bytes) -> tuple[int, int]:
    """The number of boxes and the feature width of a line, without decoding it."""
    fields = [field.strip() for field in line.split(b"\t")]
    if len(fields) != len(_FIELDS):
        raise DataError(
            f"the line of image {image!r} in {file} has {len(fields)} of the fields "
            f"{', '.join(_FIELDS)}; the file is truncated, download it again"
        )
    try:
        boxes = int(fields[3])
    except ValueError:
        boxes = 0
    if boxes < 1:
        raise DataError(
            f"image {image!r} in {file} has num_boxes {fields[3].decode('utf-8', 'replace')!r}; "
            "leave images without boxes out"
        )
    numbers, rest = divmod(_decoded_size(fields[5]), _FLOAT.itemsize * boxes)
    if rest or not numbers or _decoded_size(fields[4]) != _FLOAT.itemsize * boxes * 4:
        raise DataError(
            f"image {image!r} in {file} has {_decoded_size(fields[5])} bytes of features and "
            f"{_decoded_size(fields[4])} of boxes for {boxes} boxes; "
            "the line is truncated, download the file again"
        )
    return boxes, numbers


def _decoded_size(text: bytes) -> int:
    """Number of bytes that a base64 text decodes to."""
    return len(text) * 3 // 4 - text[-2:].count(b"=")
