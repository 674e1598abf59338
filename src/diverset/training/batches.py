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
from diverset.recipe.loaders import InputLoader
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
    """All batches of one epoch, by number.

    Attributes:
        images: inputs of the images.
        texts: inputs of the captions.
        by_image: for every image the rows of its captions.
        weights: how often each image is drawn per epoch; None for once.
        size: images in a batch, over all processes.
        seed: decides order and augmentation, together with `epoch`.
        epoch: counted from 0.
        captions: how many captions are drawn for each image; None for all.
        short_by_image: for every image the rows of its short texts, if there are any.
        short_share: share of short texts among the drawn texts.
        rank: number of this process, which prepares its share of every batch.
        world_size: number of processes.
    """

    images: InputLoader
    texts: InputLoader
    by_image: list[NDArray[np.int64]]
    size: int
    seed: int
    epoch: int = 0
    captions: int | None = None
    weights: NDArray[np.float64] | None = None
    short_by_image: list[NDArray[np.int64]] | None = None
    short_share: float = 0.0
    rank: int = 0
    world_size: int = 1

    @staticmethod
    def of(split: SplitData, recipe: Recipe, rank: int = 0, world_size: int = 1) -> Batches:
        """The batches of the first epoch over a split."""
        config, captions = recipe.train, len(split.dataset.captions)
        # In `split.texts`, short texts follow the captions.
        short = split.short_texts.by_image if split.short_texts else None
        return Batches(
            split.images,
            split.texts,
            split.by_image,
            config.batch_size,
            config.seed,
            captions=config.captions,
            weights=split.weights,
            short_by_image=None if short is None else [rows + captions for rows in short],
            short_share=recipe.data.short_texts,
            rank=rank,
            world_size=world_size,
        )

    def __len__(self) -> int:
        """The last batch may be smaller, but needs two images per process to have negatives."""
        full, rest = divmod(len(self._order), self.size)
        return full + (rest >= 2 * self.world_size)

    def __getitem__(self, number: int) -> Batch:
        all_images = self._order[number * self.size : (number + 1) * self.size]
        if self.weights is not None:  # an image drawn twice would be its own negative
            all_images = all_images[np.sort(np.unique(all_images, return_index=True)[1])]
        rng = np.random.default_rng([self.seed, self.epoch, number, self.rank])
        images = np.array_split(all_images, self.world_size)[self.rank]
        drawn = [self._draw(image, rng) for image in images]
        image_index = np.repeat(np.arange(len(images)), [len(rows) for rows in drawn])
        texts = np.concatenate(drawn)
        return Batch(
            self.images.batch(images, rng),
            self.texts.batch(texts, rng),
            torch.from_numpy(image_index),
            torch.from_numpy(images),
            torch.from_numpy(texts),
        )

    @cached_property
    def _order(self) -> NDArray[np.int64]:
        """The images of the epoch in the order of their batches."""
        rng = np.random.default_rng([self.seed, self.epoch])
        if self.weights is None:
            return rng.permutation(len(self.by_image))
        return draw_order(self.weights, rng)

    def _draw(self, image: int, rng: np.random.Generator) -> NDArray[np.int64]:
        """Rows of the texts of an image: captions, then short texts."""
        captions = self.by_image[image]
        if self.captions is not None and len(captions) > self.captions:
            captions = rng.choice(captions, self.captions, replace=False)
        if self.short_by_image is None:
            return captions
        short = self.short_by_image[image]
        expected = len(captions) * self.short_share / (1 - self.short_share)
        # Rounded at random, so that the mean over images is exact.
        count = min(int(expected + rng.random()), len(short))
        return np.concatenate([captions, rng.choice(short, count, replace=False)])

    def iterate(self, first: int = 0, workers: int = 0) -> Iterator[Batch]:
        """The batches from number `first` on."""
        if not workers:
            for number in range(first, len(self)):
                yield self[number]
            return
        yield from DataLoader(
            self,
            batch_size=None,
            sampler=range(first, len(self)),
            num_workers=workers,
            multiprocessing_context="fork",
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
