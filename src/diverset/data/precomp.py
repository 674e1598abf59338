"""SCAN's "precomp" folders: arrays of region features next to lists of captions.

The array is mapped, never loaded: COCO's training file has 33 GB. It does not know where the
pictures are, nor which detector made the features.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from diverset.data.collection import Collection
from diverset.data.files import read_lines
from diverset.data.regions import Regions, SelectedRegions
from diverset.errors import DataError, OptionError


class MappedRegions:
    """Rows of a memory-mapped .npy file, (rows, regions, width) or (rows, width).

    Only the path is pickled, so a worker process maps the file anew instead of receiving it.
    """

    def __init__(self, file: str | Path) -> None:
        self.file = Path(file)
        self._map: NDArray[Any] | None = None
        self.shape: tuple[int, ...] = self._rows().shape

    @property
    def width(self) -> int:
        return int(self.shape[-1])

    def __len__(self) -> int:
        return self.shape[0]

    def __getitem__(self, index: int, /) -> NDArray[np.float32]:
        # A row of a two-dimensional file is one pooled vector: one region.
        return np.array(self._rows()[index], dtype=np.float32).reshape(-1, self.width)

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_map": None}

    def _rows(self) -> NDArray[Any]:
        if self._map is None:
            self._map = _map_array(self.file)
        return self._map


def read_precomp(folder: str | Path, split: str, *, captions_an_image: int = 5) -> Collection:
    """Read {split}_ims.npy, {split}_caps.txt and, where it exists, {split}_ids.txt.

    Two conventions are about. Where rows and captions are equally many, every row is repeated
    for each caption of its image and is taken once. Otherwise a row is an image and the
    captions are divided evenly among the rows.

    Args:
        folder: the folder with the files.
        split: "train", "dev", "test" or "testall".
        captions_an_image: how often a row is repeated where there is one a caption; the
            other convention does not need it.
    """
    if captions_an_image < 1:
        raise OptionError(f"captions_an_image is {captions_an_image}; give 1 or more")
    folder = Path(folder)
    regions = MappedRegions(folder / f"{split}_ims.npy")
    caps_file = folder / f"{split}_caps.txt"
    captions = read_lines(caps_file)
    rows = len(regions)
    repeated = rows == len(captions)
    unit = captions_an_image if repeated else rows
    if len(captions) % unit:
        raise DataError(
            f"{caps_file} has {len(captions)} captions for {rows} rows of {regions.file.name}, "
            f"not a multiple of {unit}; the two files do not belong together or one is cut short"
        )
    each = captions_an_image if repeated else len(captions) // rows
    images = len(captions) // each
    chosen: Regions = regions
    if repeated and each > 1:
        _check_repeats(regions, each)
        chosen = SelectedRegions(regions, np.arange(images) * each)
    return Collection(
        name=f"{folder.name}/{split}",
        image_ids=_image_ids(folder / f"{split}_ids.txt", images, each),
        captions=tuple(captions),
        owners=np.repeat(np.arange(images), each),
        regions=chosen,
    )


def _image_ids(file: Path, images: int, each: int) -> tuple[str, ...]:
    """The ids of the file, which has one line an image or one a caption; else row numbers."""
    if not file.exists():
        return tuple(str(image) for image in range(images))
    lines = read_lines(file)
    if len(lines) == images:
        return tuple(lines)
    if len(lines) == images * each:
        return tuple(lines[::each])
    raise DataError(
        f"{file} has {len(lines)} ids for {images} images and {images * each} captions; "
        "it needs one line for each of either"
    )


def _check_repeats(regions: MappedRegions, each: int) -> None:
    # Guessing wrong here would pair pictures with the captions of their neighbours.
    for start in {0, len(regions) - each}:
        for row in range(start + 1, start + each):
            if not np.array_equal(regions[start], regions[row], equal_nan=True):
                raise DataError(
                    f"{regions.file} has one row a caption, but rows {start} and {row} differ "
                    f"although {each} captions are taken to share an image; pass "
                    "captions_an_image=1 if every image has a single caption"
                )


def _map_array(file: Path) -> NDArray[Any]:
    try:
        array: NDArray[Any] = np.load(file, mmap_mode="r", allow_pickle=False)
    except (OSError, ValueError, EOFError) as error:
        raise DataError(
            f"cannot map {file}: {error}; it is missing or cut short, get it again"
        ) from error
    if array.dtype.kind != "f" or array.ndim not in (2, 3) or 0 in array.shape:
        raise DataError(
            f"{file} holds {array.dtype} of shape {array.shape}; "
            "region features are floats of shape (rows, regions, width) or (rows, width)"
        )
    return array
