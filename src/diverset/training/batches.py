"""The batches of an epoch: images with their captions, in an order that a seed decides.

What a batch holds depends on the seed, the epoch and its number alone, not on how many processes
prepare it or where a run was resumed.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Int
from numpy.typing import NDArray
from torch import Tensor
from torch.utils.data import DataLoader, Dataset

from diverset.encoder import Inputs
from diverset.training.sources import Source


@dataclass(frozen=True)
class Batch:
    """Images, their captions, and for every caption the row of its image.

    `image_places` and `text_places` say where they stand in the split.
    """

    images: Inputs
    texts: Inputs
    owners: Int[Tensor, " texts"]
    image_places: Int[Tensor, " images"]
    text_places: Int[Tensor, " texts"]

    def to(self, device: torch.device | str) -> Batch:
        return Batch(**{name: value.to(device) for name, value in vars(self).items()})


@dataclass(frozen=True)
class Batches(Dataset[Batch]):
    """All batches of one epoch, by number.

    Attributes:
        images: where images come from.
        texts: where captions come from.
        by_image: for every image the indices of its captions.
        size: images in a batch, over all processes.
        seed: decides order and augmentation, together with `epoch`.
        epoch: counted from 0.
        captions: how many captions are drawn for each image; 0 takes all.
        rank: which part of every batch this process prepares ...
        world: ... of how many.
    """

    images: Source
    texts: Source
    by_image: list[NDArray[np.int64]]
    size: int
    seed: int
    epoch: int = 0
    captions: int = 0
    rank: int = 0
    world: int = 1

    def __len__(self) -> int:
        """The last batch may be smaller, but a single image has no negatives and is left out."""
        full, rest = divmod(len(self.by_image), self.size)
        return full + (rest >= 2 * self.world)

    def __getitem__(self, number: int) -> Batch:
        order = np.random.default_rng([self.seed, self.epoch]).permutation(len(self.by_image))
        whole = order[number * self.size : (number + 1) * self.size]
        chance = np.random.default_rng([self.seed, self.epoch, number, self.rank])
        chosen = np.array_split(whole, self.world)[self.rank]
        captions = [self._drawn(self.by_image[image], chance) for image in chosen]
        owners = np.repeat(np.arange(len(chosen)), [len(some) for some in captions])
        together = np.concatenate(captions)
        return Batch(
            self.images.batch(chosen, chance),
            self.texts.batch(together, chance),
            torch.from_numpy(owners),
            torch.from_numpy(chosen),
            torch.from_numpy(together),
        )

    def _drawn(self, captions: NDArray[np.int64], chance: np.random.Generator) -> NDArray[np.int64]:
        if not self.captions or len(captions) <= self.captions:
            return captions
        return chance.choice(captions, self.captions, replace=False)

    def walk(self, first: int = 0, workers: int = 0) -> Iterator[Batch]:
        """The batches from number `first` on."""
        if not workers:
            for number in range(first, len(self)):
                yield self[number]
            return
        loader = DataLoader(
            self,
            batch_size=None,
            sampler=range(first, len(self)),
            num_workers=workers,
            multiprocessing_context="fork",
        )
        yield from loader
