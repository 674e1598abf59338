"""What every source of region features looks like, and a view on some of its images.

It knows nothing of files: memory-mapped arrays are in `precomp`, TSV files in `bottom_up`.
"""

from __future__ import annotations

from typing import Protocol

import numpy as np
from numpy.typing import NDArray


class Regions(Protocol):
    """Region features by image: `regions[i]` is a float32 array (regions of image i, width)."""

    @property
    def width(self) -> int:
        """How many numbers describe one region."""
        ...

    def __len__(self) -> int: ...

    def __getitem__(self, index: int, /) -> NDArray[np.float32]: ...


class SelectedRegions:
    """Some images of another source, in another order; nothing is read or copied for it."""

    def __init__(self, source: Regions, indices: NDArray[np.int64]) -> None:
        # A view on a view would cost one hop an access for every `subset` that was taken.
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
