"""Where a model's inputs come from: regions, cached features, pictures, words, tokens.

Every source turns indices of a collection into a batch of inputs. With a random generator it
augments, without one it gives what evaluation sees. Batches and epochs are not known here.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import numpy as np
import torch
from torch import Tensor

from diverset.backbones import (
    CachedMaps,
    CachedTokens,
    JoinedMaps,
    PictureBackbone,
    TextBackbone,
)
from diverset.data.augment import drop_cells, drop_inputs, drop_regions, drop_words
from diverset.data.images import open_picture
from diverset.data.preprocess import Preprocess, RandomResizedCrop
from diverset.data.regions import Regions
from diverset.data.vocabulary import SPECIAL, UNK, Vocabulary
from diverset.encoder import Inputs
from diverset.types import Maps, Padded

Indices = Sequence[int] | np.ndarray
Chance = np.random.Generator | None


class Source(Protocol):
    """Inputs of one modality by index."""

    def __len__(self) -> int: ...

    def batch(self, indices: Indices, chance: Chance = None) -> Inputs:
        """The inputs of these items; augmented where a generator is given."""
        ...


@dataclass(frozen=True)
class RegionSource:
    """Region features; in training some are hidden."""

    regions: Regions
    drop: float = 0.0

    def __len__(self) -> int:
        return len(self.regions)

    def batch(self, indices: Indices, chance: Chance = None) -> Padded:
        # A copy: memory-mapped rows are read-only.
        found = Padded.of([torch.from_numpy(np.array(self.regions[int(i)])) for i in indices])
        return drop_regions(found, chance, 1 - self.drop) if chance and self.drop else found


@dataclass(frozen=True)
class MapSource:
    """Cached feature maps; in training a random view of each, some cells hidden.

    `places` says where each image stands in the cache, which also counts unreadable pictures and
    may have another order.
    `grid` is the size of the map whose cells are hidden, where it is not the cached one.
    """

    maps: CachedMaps | JoinedMaps
    places: np.ndarray
    drop: float = 0.0
    grid: tuple[int, int] | None = None

    def __len__(self) -> int:
        return len(self.places)

    def batch(self, indices: Indices, chance: Chance = None) -> Maps:
        where = self.places[np.asarray(indices)]
        if chance is None:
            return Maps(self.maps.maps(where))
        views = chance.integers(self.maps.views, size=len(where))
        values = self.maps.maps(where, views)
        if not self.drop:
            return Maps(values)
        height, width = self.grid or values.shape[2:]
        return Maps(values, drop_cells(len(values), height, width, chance, 1 - self.drop))


@dataclass(frozen=True)
class PictureSource:
    """Pixels of pictures, for a network that is trained; in training random crops and flips."""

    files: Sequence[Path]
    preprocess: Preprocess
    crop: RandomResizedCrop | None = None

    @staticmethod
    def of(files: Sequence[Path], network: PictureBackbone, smallest: float = 1.0) -> PictureSource:
        crop = RandomResizedCrop(scale=(smallest, 1.0)) if smallest < 1 else None
        return PictureSource(tuple(files), network.preprocess, crop)

    def __len__(self) -> int:
        return len(self.files)

    def batch(self, indices: Indices, chance: Chance = None) -> Tensor:
        return self.preprocess.batch([self._pixels(self.files[int(i)], chance) for i in indices])

    def _pixels(self, file: Path, chance: Chance) -> Tensor:
        picture = open_picture(file, at_least=self.preprocess.wanted)
        if chance is None or self.crop is None:
            return self.preprocess.pixels(picture)
        return self.crop.pixels(picture, self.preprocess, chance)


@dataclass(frozen=True)
class WordSource:
    """Word ids; in training some words are masked, replaced or left out."""

    captions: Sequence[Sequence[int]]
    vocabulary_size: int
    drop: float = 0.0

    @staticmethod
    def of(captions: Sequence[str], vocabulary: Vocabulary, drop: float = 0.0) -> WordSource:
        return WordSource([vocabulary.encode(one) for one in captions], len(vocabulary), drop)

    def __len__(self) -> int:
        return len(self.captions)

    def batch(self, indices: Indices, chance: Chance = None) -> Padded:
        ids = [self.captions[int(i)] for i in indices]
        if chance and self.drop:
            words = range(len(SPECIAL), self.vocabulary_size)
            ids = [drop_words(one, chance, mask_id=UNK, words=words, rate=self.drop) for one in ids]
        return Padded.of([torch.tensor(one) for one in ids])


@dataclass(frozen=True)
class StateSource:
    """Cached token states; in training some tokens are hidden."""

    tokens: CachedTokens
    drop: float = 0.0

    def __len__(self) -> int:
        return len(self.tokens)

    def batch(self, indices: Indices, chance: Chance = None) -> Padded:
        found = self.tokens.padded(np.asarray(indices))
        if not (chance and self.drop):
            return found
        return Padded(found.values, drop_inputs(found.mask, chance, 1 - self.drop))


@dataclass(frozen=True)
class TokenSource:
    """Token ids for a transformer that is trained; in training some tokens are hidden."""

    ids: Sequence[Tensor]
    drop: float = 0.0

    @staticmethod
    def of(captions: Sequence[str], network: TextBackbone, drop: float = 0.0) -> TokenSource:
        ids: list[Tensor] = []
        for start in range(0, len(captions), 1024):
            some = network.tokenize(captions[start : start + 1024])
            lengths = some.mask.sum(dim=1).tolist()
            ids += [row[:length] for row, length in zip(some.values, lengths, strict=True)]
        return TokenSource(ids, drop)

    def __len__(self) -> int:
        return len(self.ids)

    def batch(self, indices: Indices, chance: Chance = None) -> Padded:
        chosen = [self.ids[int(i)] for i in indices]
        if chance and self.drop:
            chosen = [_shortened(one, chance, self.drop) for one in chosen]
        return Padded.of(chosen)


def _shortened(ids: Tensor, chance: np.random.Generator, drop: float) -> Tensor:
    """Leave out tokens, never the first and the last, which are the network's own."""
    kept = chance.random(len(ids)) >= drop
    kept[[0, -1]] = True
    if len(ids) > 2 and not kept[1:-1].any():
        kept[1 + chance.integers(len(ids) - 2)] = True
    return ids[torch.from_numpy(kept)]
