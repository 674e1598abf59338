"""The interface of region features, and a view of selected images."""

from __future__ import annotations

from typing import Protocol

import numpy as np
from numpy.typing import NDArray


class Regions(Protocol):
    """Region features by image: `regions[i]` is a float32 array (regions of image i, width)."""

    @property
    def width(self) -> int:
        """Width of the feature of a region."""
        ...

    def __len__(self) -> int: ...

    def __getitem__(self, index: int, /) -> NDArray[np.float32]: ...


class SelectedRegions:
    """The regions of selected images, in a given order, without copying."""

    def __init__(self, regions: Regions, indices: NDArray[np.int64]) -> None:
        self._regions: Regions = regions
        self._indices = indices
        if isinstance(regions, SelectedRegions):  # a view of a view would add an indirection
            self._regions, self._indices = regions._regions, regions._indices[indices]

    @property
    def width(self) -> int:
        return self._regions.width

    def __len__(self) -> int:
        return len(self._indices)

    def __getitem__(self, index: int, /) -> NDArray[np.float32]:
        return self._regions[int(self._indices[index])]
