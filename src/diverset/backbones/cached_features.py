"""Read cached features of a frozen backbone: feature maps of images, token states of texts.

The files are memory-mapped; a batch reads only its own rows.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from jaxtyping import Float
from numpy.typing import ArrayLike, NDArray
from torch import Tensor

from diverset.backbones.cache_files import (
    DONE,
    FORMAT,
    HEADER,
    JOURNAL,
    OFFSETS,
    check_header,
    from_storage,
    map_rows,
    read_journal,
    read_json,
)
from diverset.errors import DataError, InputError, OptionError
from diverset.types import Padded


class CachedMaps:
    """Feature maps by image, one array per view; view 0 is the image without augmentation.

    Maps are stored as (images, rows, columns, channels) and returned as a (batch, channels, rows,
    columns) view of that memory, so that the projection reads cells in the order of the file.

    Attributes:
        valid: True where the image could be read.
        unreadable: the reason for every image that could not, by path.
    """

    def __init__(self, folders: Sequence[Path]) -> None:
        self.folders = tuple(folders)
        self.header = [_read_header(folder, "images") for folder in self.folders][0]
        self._views = [map_rows(folder) for folder in self.folders]
        for folder, view in zip(self.folders, self._views, strict=True):
            if view.shape != self._views[0].shape:
                raise DataError(
                    f"{folder} has shape {view.shape} and {self.folders[0]} "
                    f"{self._views[0].shape}; all views of a cache must have the same shape"
                )
        self.valid: NDArray[np.bool_] = np.ones(len(self), dtype=bool)
        self.unreadable: dict[str, str] = {}
        for folder in self.folders:
            for item in read_json(folder / DONE)["unreadable"]:
                self.valid[item["index"]] = False
                self.unreadable[item["path"]] = item["reason"]

    def __len__(self) -> int:
        return len(self._views[0])

    @property
    def views(self) -> int:
        return len(self._views)

    @property
    def shape(self) -> tuple[int, int, int]:
        """Channels, rows and columns of a map."""
        _, rows, columns, channels = self._views[0].shape
        return channels, rows, columns

    @property
    def width(self) -> int:
        return self.shape[0]

    def maps(
        self, indices: ArrayLike, view: ArrayLike = 0
    ) -> Float[Tensor, "batch channels rows columns"]:
        """The maps of these images in float32.

        Args:
            indices: positions in the list of images that was cached.
            view: one view for all images, or one per image.
        """
        images = _check_indices(indices, len(self), "image")
        if not self.valid[images].all():
            unreadable = int(images[~self.valid[images]][0])
            raise DataError(
                f"image {unreadable} could not be read when the cache was created; "
                "use only images where `valid` is True"
            )
        views = np.broadcast_to(np.asarray(view, dtype=np.int64), images.shape)
        if views.size and not 0 <= views.min() <= views.max() < self.views:
            raise OptionError(f"view {views.max()}; this cache has {self.views}, counted from 0")
        cells = torch.empty(len(images), *self._views[0].shape[1:])
        for row, (image, number) in enumerate(zip(images, views, strict=True)):
            cells[row] = from_storage(self._views[number][image], self.header["storage"])
        return cells.permute(0, 3, 1, 2)


class ConcatenatedMaps:
    """Several caches with consecutive indices: those of "train" and "val" serve "train+val".

    Attributes:
        valid, unreadable: as in `CachedMaps`.
    """

    def __init__(self, parts: Sequence[CachedMaps]) -> None:
        self.parts = tuple(parts)
        self.starts = np.cumsum([0, *map(len, parts)])
        self.valid: NDArray[np.bool_] = np.concatenate([part.valid for part in parts])
        self.unreadable = {path: why for part in parts for path, why in part.unreadable.items()}

    def __len__(self) -> int:
        return int(self.starts[-1])

    @property
    def views(self) -> int:
        return min(part.views for part in self.parts)

    @property
    def shape(self) -> tuple[int, int, int]:
        return self.parts[0].shape

    def maps(
        self, indices: ArrayLike, view: ArrayLike = 0
    ) -> Float[Tensor, "batch channels rows columns"]:
        """The maps of these images in float32; see `CachedMaps.maps`."""
        images = _check_indices(indices, len(self), "image")
        views = np.broadcast_to(np.asarray(view, dtype=np.int64), images.shape)
        part_index = np.searchsorted(self.starts, images, side="right") - 1
        channels, rows, columns = self.shape
        maps = torch.empty(len(images), rows, columns, channels).permute(0, 3, 1, 2)
        for number in np.unique(part_index).tolist():
            selected = part_index == number
            local = images[selected] - self.starts[number]
            maps[torch.from_numpy(selected)] = self.parts[number].maps(local, views[selected])
        return maps


class CachedTokens:
    """Token states by text: one array of all tokens, and the first row of each text."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.header = _read_header(folder, "texts")
        self._rows = map_rows(folder)
        self._offsets: NDArray[np.int64] = np.load(folder / OFFSETS)

    def __len__(self) -> int:
        return len(self._offsets) - 1

    @property
    def width(self) -> int:
        return int(self._rows.shape[1])

    @property
    def lengths(self) -> NDArray[np.int64]:
        """Number of tokens of each text."""
        return np.diff(self._offsets)

    def __getitem__(self, index: int) -> Float[Tensor, "tokens width"]:
        text = int(_check_indices([index], len(self), "text")[0])
        return self._states(text).to(torch.float32, copy=True)

    def padded(self, indices: ArrayLike) -> Padded:
        """The states of these texts as a batch in float32."""
        texts = _check_indices(indices, len(self), "text")
        if not len(texts):
            raise InputError("the batch of texts is empty; give at least one index")
        lengths = self.lengths[texts]
        values = torch.zeros(len(texts), int(lengths.max()), self.width)
        for row, (text, length) in enumerate(zip(texts, lengths, strict=True)):
            values[row, :length] = self._states(int(text))
        return Padded.from_lengths(values, torch.from_numpy(lengths))

    def _states(self, text: int) -> Tensor:
        rows = self._rows[self._offsets[text] : self._offsets[text + 1]]
        return from_storage(rows, self.header["storage"])


def _read_header(folder: Path, kind: str) -> dict[str, Any]:
    header = read_json(folder / HEADER)
    check_header(folder, header, {"format": FORMAT, "kind": kind})
    if not (folder / DONE).exists():
        finished = len(read_journal(folder / JOURNAL))
        raise DataError(
            f"the feature cache {folder} is incomplete, {finished} batches are finished; "
            "run the same extraction again to resume"
        )
    return header


def _check_indices(indices: ArrayLike, count: int, what: str) -> NDArray[np.int64]:
    array = np.atleast_1d(np.asarray(indices)).astype(np.int64)
    if array.size and not 0 <= array.min() <= array.max() < count:
        raise OptionError(
            f"{what} indices {int(array.min())} to {int(array.max())} of a cache of {count}; "
            f"give indices from 0 to {count - 1}"
        )
    return array
