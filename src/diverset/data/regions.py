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
    """Selected images of another source, in a given order, without copying."""

    def __init__(self, source: Regions, indices: NDArray[np.int64]) -> None:
        # A view of a view would add one indirection per access for every `subset`.
        self._source: Regions = source
        self._indices: NDArray[np.int64] = indices
        if isinstance(source, SelectedRegions):
            self._source = source._source
            self._indices = source._indices[indices]

    @property
    def width(self) -> int:
        return self._source.width

    def __len__(self) -> int:
        return len(self._indices)

    def __getitem__(self, index: int, /) -> NDArray[np.float32]:
        return self._source[int(self._indices[index])]
