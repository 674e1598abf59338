"""SCAN's "precomp" folders: arrays of region features next to lists of captions.

The array is memory-mapped, never loaded: COCO's training file has 33 GB.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from diverset.data.dataset import CaptionDataset
from diverset.data.regions import Regions, SelectedRegions
from diverset.errors import DataError, OptionError
from diverset.runtime.files import load_array, read_lines


class MappedRegions:
    """Rows of a memory-mapped .npy file, (rows, regions, width) or (rows, width).

    Only the path is pickled: a worker process maps the file itself instead of receiving a copy.
    """

    def __init__(self, file: str | Path) -> None:
        self.file = Path(file)
        self._rows = array = load_array(file, "r")
        if array.dtype.kind != "f" or array.ndim not in (2, 3) or 0 in array.shape:
            raise DataError(
                f"{file} holds {array.dtype} of shape {array.shape}; "
                "region features are floats of shape (rows, regions, width) or (rows, width)"
            )

    @property
    def width(self) -> int:
        return int(self._rows.shape[-1])

    def __len__(self) -> int:
        return len(self._rows)

    def __getitem__(self, index: int, /) -> NDArray[np.float32]:
        # A row of a two-dimensional file is one pooled vector: one region.
        return np.array(self._rows[index], dtype=np.float32).reshape(-1, self.width)

    def __reduce__(self) -> tuple[type[MappedRegions], tuple[Path]]:
        return MappedRegions, (self.file,)


def read_precomp(folder: str | Path, split: str, *, captions_per_image: int = 5) -> CaptionDataset:
    """Read {split}_ims.npy, {split}_caps.txt and, where it exists, {split}_ids.txt.

    There are two conventions. If there are as many rows as captions, the row of an image is
    repeated for each of its captions and read once. Otherwise a row is an image, and the captions
    are divided evenly among the rows.

    Args:
        folder: the folder with the files.
        split: "train", "dev", "test" or "testall".
        captions_per_image: how often a row is repeated in the first convention; the second does
            not need it.
    """
    if captions_per_image < 1:
        raise OptionError(f"captions_per_image is {captions_per_image}; give 1 or more")
    folder = Path(folder)
    regions = MappedRegions(folder / f"{split}_ims.npy")
    caps_file = folder / f"{split}_caps.txt"
    captions = read_lines(caps_file)
    rows = len(regions)
    repeated = rows == len(captions)
    unit = captions_per_image if repeated else rows
    if len(captions) % unit:
        raise DataError(
            f"{caps_file} has {len(captions)} captions for {rows} rows of {regions.file.name}, "
            f"not a multiple of {unit}; the two files do not belong together or one is truncated"
        )
    each = captions_per_image if repeated else len(captions) // rows
    images = len(captions) // each
    selected: Regions = regions
    if repeated and each > 1:
        _check_repeats(regions, each)
        selected = SelectedRegions(regions, np.arange(images) * each)
    return CaptionDataset(
        name=f"{folder.name}/{split}",
        image_ids=_image_ids(folder / f"{split}_ids.txt", images, each),
        captions=tuple(captions),
        image_index=np.repeat(np.arange(images), each),
        regions=selected,
    )


def _image_ids(file: Path, images: int, each: int) -> tuple[str, ...]:
    """The ids of the file, one line per image or per caption; without a file, row numbers."""
    if not file.exists():
        return tuple(str(image) for image in range(images))
    lines = read_lines(file)
    if len(lines) == images:
        return tuple(lines)
    if len(lines) == images * each:
        return tuple(lines[::each])
    raise DataError(
        f"{file} has {len(lines)} ids for {images} images and {images * each} captions; "
        "give one line per image, or one per caption"
    )


def _check_repeats(regions: MappedRegions, each: int) -> None:
    # A wrong guess would pair images with the captions of their neighbours.
    for start in {0, len(regions) - each}:
        for row in range(start + 1, start + each):
            if not np.array_equal(regions[start], regions[row], equal_nan=True):
                raise DataError(
                    f"{regions.file} has one row per caption, but rows {start} and {row} differ "
                    f"although {each} captions are assumed to share an image; pass "
                    "captions_per_image=1 if every image has a single caption"
                )
