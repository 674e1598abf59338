"""Read cached features of a frozen backbone: feature maps of images, token states of texts.

The files are memory-mapped; a batch reads only its own rows.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain
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

    Args:
        caches: the folders of a cache, one per view. Several caches have consecutive indices:
            those of "train" and "val" serve "train+val".

    Attributes:
        valid: True where the image could be read.
        unreadable: the reason for every image that could not, by path.
    """

    def __init__(self, *caches: Sequence[Path]) -> None:
        self.folders = tuple(chain.from_iterable(caches))
        self.header = _read_header(self.folders[0], "images")
        self._parts = [_map_views(folders) for folders in caches]
        self._starts = np.cumsum([0, *(len(views[0]) for views in self._parts)])
        self.valid: NDArray[np.bool_] = np.ones(len(self), dtype=bool)
        self.unreadable: dict[str, str] = {}
        for start, folders in zip(self._starts, caches, strict=False):
            for item in chain.from_iterable(read_json(f / DONE)["unreadable"] for f in folders):
                self.valid[start + item["index"]] = False
                self.unreadable[item["path"]] = item["reason"]

    def __len__(self) -> int:
        return int(self._starts[-1])

    @property
    def views(self) -> int:
        return min(len(views) for views in self._parts)

    @property
    def shape(self) -> tuple[int, int, int]:
        """Channels, rows and columns of a map."""
        _, rows, columns, channels = self._parts[0][0].shape
        return channels, rows, columns

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
        parts = np.searchsorted(self._starts, images, side="right") - 1
        places = zip(parts, views, images - self._starts[parts], strict=True)
        cells = torch.empty(len(images), *self._parts[0][0].shape[1:])
        for row, (part, number, image) in enumerate(places):
            cells[row] = self._parts[part][number][image]
        return cells.permute(0, 3, 1, 2)


class CachedTokens:
    """Token states by text: one array of all tokens, and the first row of each text."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.header = _read_header(folder, "texts")
        self._rows = from_storage(map_rows(folder), self.header["storage"])
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
        return self.padded([index]).values[0]

    def padded(self, indices: ArrayLike) -> Padded:
        """The states of these texts as a batch in float32."""
        texts = _check_indices(indices, len(self), "text")
        if not len(texts):
            raise InputError("the batch of texts is empty; give at least one index")
        lengths = self._offsets[texts + 1] - self._offsets[texts]
        values = torch.zeros(len(texts), int(lengths.max()), self.width)
        for row, (text, length) in enumerate(zip(texts, lengths, strict=True)):
            values[row, :length] = self._rows[self._offsets[text] : self._offsets[text + 1]]
        return Padded.from_lengths(values, torch.from_numpy(lengths))


def _map_views(folders: Sequence[Path]) -> list[Tensor]:
    headers = [_read_header(folder, "images") for folder in folders]
    views = [from_storage(map_rows(f), h["storage"]) for f, h in zip(folders, headers, strict=True)]
    for folder, view in zip(folders, views, strict=True):
        if view.shape != views[0].shape:
            raise DataError(
                f"{folder} has shape {tuple(view.shape)} and {folders[0]} "
                f"{tuple(views[0].shape)}; all views of a cache must have the same shape"
            )
    return views


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
