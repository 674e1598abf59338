"""Input loaders: the inputs of one modality by index, as batches for a model.

With a random generator a loader augments, as in training; without one it does not.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol, cast

import numpy as np
import torch
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

from diverset.backbones import CachedMaps, CachedTokens
from diverset.data.augment import drop_inputs, drop_words
from diverset.data.preprocess import Preprocess, RandomResizedCrop
from diverset.data.regions import Regions
from diverset.data.vocabulary import SPECIAL, UNK
from diverset.model.encoder import Inputs
from diverset.types import Maps, Padded

Indices = Sequence[int] | np.ndarray
Rng = np.random.Generator | None


class InputLoader(Protocol):
    """Inputs of one modality by index."""

    def __len__(self) -> int: ...

    def batch(self, indices: Indices, rng: Rng = None) -> Inputs:
        """The inputs of these items, augmented if a generator is given."""
        ...


@dataclass(frozen=True)
class RegionLoader:
    """Region features; in training some are masked."""

    regions: Regions
    drop: float = 0.0

    def __len__(self) -> int:
        return len(self.regions)

    def batch(self, indices: Indices, rng: Rng = None) -> Padded:
        # A copy: memory-mapped rows are read-only.
        regions = [torch.from_numpy(np.array(self.regions[int(i)])) for i in indices]
        return _mask_inputs(Padded.of(regions), self.drop, rng)


@dataclass(frozen=True)
class MapLoader:
    """Cached feature maps; in training a random view of each, with some cells masked.

    Attributes:
        rows: the row of each image in the cache, which also counts unreadable images.
        grid: rows and columns of the map whose cells are masked, if it is not the cached one.
    """

    maps: CachedMaps
    rows: np.ndarray
    drop: float = 0.0
    grid: tuple[int, int] | None = None

    def __len__(self) -> int:
        return len(self.rows)

    def batch(self, indices: Indices, rng: Rng = None) -> Maps:
        rows = self.rows[np.asarray(indices)]
        if rng is None:
            return Maps(self.maps.maps(rows))
        views = rng.integers(self.maps.views, size=len(rows))
        values = self.maps.maps(rows, views)
        if not self.drop:
            return Maps(values)
        height, width = self.grid or values.shape[2:]
        cells = torch.ones(len(values), height * width, dtype=torch.bool)
        return Maps(values, drop_inputs(cells, rng, 1 - self.drop))


@dataclass(frozen=True)
class ImageLoader:
    """Pixels, for a backbone that is trained; in training random crops and flips."""

    files: Sequence[Path]
    preprocess: Preprocess
    crop: RandomResizedCrop | None = None

    def __len__(self) -> int:
        return len(self.files)

    def batch(self, indices: Indices, rng: Rng = None) -> Tensor:
        return self.preprocess.batch([self._pixels(self.files[int(i)], rng) for i in indices])

    def _pixels(self, file: Path, rng: Rng) -> Tensor:
        image = self.preprocess.open(file)
        if rng is None or self.crop is None:
            return self.preprocess.pixels(image)
        return self.crop.pixels(image, self.preprocess, rng)


@dataclass(frozen=True)
class WordLoader:
    """Word ids; in training some words are masked, replaced or removed."""

    captions: Sequence[Sequence[int]]
    vocabulary_size: int
    drop: float = 0.0

    def __len__(self) -> int:
        return len(self.captions)

    def batch(self, indices: Indices, rng: Rng = None) -> Padded:
        ids = [self.captions[int(i)] for i in indices]
        if rng and self.drop:
            words = range(len(SPECIAL), self.vocabulary_size)
            ids = [drop_words(row, rng, mask_id=UNK, words=words, rate=self.drop) for row in ids]
        return Padded.of([torch.tensor(row) for row in ids])


@dataclass(frozen=True)
class StateLoader:
    """Cached token states of a frozen text backbone; in training some tokens are masked."""

    tokens: CachedTokens
    drop: float = 0.0

    def __len__(self) -> int:
        return len(self.tokens)

    def batch(self, indices: Indices, rng: Rng = None) -> Padded:
        return _mask_inputs(self.tokens.padded(np.asarray(indices)), self.drop, rng)


@dataclass(frozen=True)
class TokenLoader:
    """Token ids, for a transformer that is trained; in training some tokens are removed."""

    ids: Sequence[Tensor]
    drop: float = 0.0

    def __len__(self) -> int:
        return len(self.ids)

    def batch(self, indices: Indices, rng: Rng = None) -> Padded:
        ids = [self.ids[int(i)] for i in indices]
        if rng and self.drop:
            ids = [_remove_tokens(row, rng, self.drop) for row in ids]
        return Padded.of(ids)


@dataclass(frozen=True)
class SubsetLoader:
    """Some items of another loader."""

    loader: InputLoader
    rows: np.ndarray

    def __len__(self) -> int:
        return len(self.rows)

    def batch(self, indices: Indices, rng: Rng = None) -> Inputs:
        return self.loader.batch(self.rows[np.asarray(indices)], rng)


class JoinedLoader:
    """Several loaders of one kind, one after the other."""

    def __init__(self, parts: Sequence[InputLoader]) -> None:
        self.parts = tuple(parts)
        self.starts = np.cumsum([0, *map(len, parts)])

    def __len__(self) -> int:
        return int(self.starts[-1])

    def batch(self, indices: Indices, rng: Rng = None) -> Inputs:
        indices = np.asarray(indices)
        part_of = np.searchsorted(self.starts, indices, side="right") - 1
        rows = [np.flatnonzero(part_of == number) for number in range(len(self.parts))]
        batches = [
            part.batch(indices[own] - start, rng)
            for part, own, start in zip(self.parts, rows, self.starts[:-1], strict=True)
            if len(own)
        ]
        # Row n of the concatenated batches belongs to position concatenate(rows)[n].
        order = torch.from_numpy(np.argsort(np.concatenate(rows)))
        return batches[0] if len(batches) == 1 else _concatenate(batches, order)


def _concatenate(batches: Sequence[Inputs], order: Tensor) -> Inputs:
    """The rows of several batches in this order."""
    first = batches[0]
    if isinstance(first, Tensor):
        return torch.cat([cast(Tensor, batch) for batch in batches])[order]
    values = [cast(Padded | Maps, batch).values for batch in batches]
    masks = [cast(Padded | Maps, batch).mask for batch in batches]
    if isinstance(first, Maps):
        mask = None if first.mask is None else torch.cat(cast(list[Tensor], masks))[order]
        return Maps(torch.cat(values)[order], mask)
    padded, mask = (
        pad_sequence([row for rows in parts for row in cast(Tensor, rows)], batch_first=True)
        for parts in (values, masks)
    )
    return Padded(padded[order], mask[order])


def _mask_inputs(padded: Padded, drop: float, rng: Rng) -> Padded:
    if not (rng and drop):
        return padded
    return Padded(padded.values, drop_inputs(padded.mask, rng, 1 - drop))


def _remove_tokens(ids: Tensor, rng: np.random.Generator, drop: float) -> Tensor:
    """Remove tokens, but never the first and last, which belong to the backbone."""
    keep = rng.random(len(ids)) >= drop
    keep[[0, -1]] = True
    if len(ids) > 2 and not keep[1:-1].any():
        keep[1 + rng.integers(len(ids) - 2)] = True
    return ids[torch.from_numpy(keep)]
