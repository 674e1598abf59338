"""The batches of an epoch: images with their captions, in an order that the seed decides.

The content of a batch depends only on seed, epoch and batch number, not on the number of worker
processes or on where a run was resumed.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import torch
from jaxtyping import Int
from numpy.typing import NDArray
from torch import Tensor
from torch.utils.data import DataLoader, Dataset

from diverset.model.encoder import Inputs
from diverset.recipe.config import Recipe
from diverset.recipe.splits import SplitData


@dataclass(frozen=True)
class Batch:
    """Images and their captions.

    Attributes:
        image_index: for every caption the row of its image in this batch.
        image_rows: the row of every image in the split.
        text_rows: the row of every caption in the split.
    """

    images: Inputs
    texts: Inputs
    image_index: Int[Tensor, " texts"]
    image_rows: Int[Tensor, " images"]
    text_rows: Int[Tensor, " texts"]

    def to(self, device: torch.device | str) -> Batch:
        return Batch(**{name: value.to(device) for name, value in vars(self).items()})


@dataclass(frozen=True)
class Batches(Dataset[Batch]):
    """All batches of one epoch over a split, by number.

    Attributes:
        split: inputs of the images and texts; in its texts, short texts follow the captions.
        recipe: `train` and `data` decide size, seed and the texts that are drawn.
        epoch: counted from 0; with the seed it decides order and augmentation.
        rank: number of this process, which prepares its share of every batch.
        world_size: number of processes.
    """

    split: SplitData
    recipe: Recipe
    epoch: int = 0
    rank: int = 0
    world_size: int = 1

    def __len__(self) -> int:
        """The last batch may be smaller, but needs two images per process to have negatives."""
        full, rest = divmod(len(self._order), self.recipe.train.batch_size)
        return full + (rest >= 2 * self.world_size)

    def __getitem__(self, number: int) -> Batch:
        size = self.recipe.train.batch_size
        all_images = self._order[number * size : (number + 1) * size]
        if self.split.weights is not None:  # an image drawn twice would be its own negative
            all_images = all_images[np.sort(np.unique(all_images, return_index=True)[1])]
        rng = np.random.default_rng([self.recipe.train.seed, self.epoch, number, self.rank])
        images = np.array_split(all_images, self.world_size)[self.rank]
        drawn = [self._draw(image, rng) for image in images]
        image_index = np.repeat(np.arange(len(images)), [len(rows) for rows in drawn])
        texts = np.concatenate(drawn)
        return Batch(
            self.split.images.batch(images, rng),
            self.split.texts.batch(texts, rng),
            torch.from_numpy(image_index),
            torch.from_numpy(images),
            torch.from_numpy(texts),
        )

    @cached_property
    def _order(self) -> NDArray[np.int64]:
        """The images of the epoch in the order of their batches."""
        rng = np.random.default_rng([self.recipe.train.seed, self.epoch])
        if self.split.weights is None:
            return rng.permutation(len(self.split.by_image))
        return draw_order(self.split.weights, rng)

    def _draw(self, image: int, rng: np.random.Generator) -> NDArray[np.int64]:
        """Rows of the texts of an image: captions, then short texts."""
        captions, most = self.split.by_image[image], self.recipe.train.captions
        if most is not None and len(captions) > most:
            captions = rng.choice(captions, most, replace=False)
        if self.split.short_texts is None:
            return captions
        short = self.split.short_texts.by_image[image] + len(self.split.dataset.captions)
        share = self.recipe.data.short_texts
        expected = len(captions) * share / (1 - share)
        # Rounded at random, so that the mean over images is exact.
        count = min(int(expected + rng.random()), len(short))
        return np.concatenate([captions, rng.choice(short, count, replace=False)])

    def iterate(self, first: int = 0, workers: int = 0) -> Iterator[Batch]:
        """The batches from number `first` on."""
        yield from DataLoader(
            self,
            batch_size=None,
            sampler=range(first, len(self)),
            num_workers=workers,
            multiprocessing_context="fork" if workers else None,
            generator=torch.Generator(),  # not the global one: it decides dropout
        )


def draw_order(weights: NDArray[np.float64], rng: np.random.Generator) -> NDArray[np.int64]:
    """Images in random order, each as often as its weight says.

    A weight of 2.25 draws an image two or three times. The number of draws is the rounded sum of
    all weights. Draws of one image are spread evenly, to land in different batches.

    >>> sorted(draw_order(np.array([1.0, 2.0, 0.5, 0.5]), np.random.default_rng(0)).tolist())
    [0, 1, 1, 2]
    """
    shuffled = rng.permutation(len(weights))
    total = np.floor(np.cumsum(weights[shuffled]) + 0.5).astype(np.int64)
    counts = np.empty_like(total)
    counts[shuffled] = np.diff(total, prepend=0)
    images = np.repeat(np.arange(len(weights)), counts)
    draw = np.arange(len(images)) - np.repeat(np.cumsum(counts) - counts, counts)
    offset = rng.random(len(weights))[images]
    return images[np.argsort((draw + offset) / counts[images], kind="stable")]
