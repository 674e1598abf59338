"""The bank of a trained model: some of its training queries, and a weight chosen on validation."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from diverset.encoder import Inputs
from diverset.errors import OptionError
from diverset.evaluation import Member
from diverset.evaluation.hubness import Bank, choose_weight
from diverset.model import Model
from diverset.training.encoding import encode_split
from diverset.training.opening import Opened, Progress, named, open_split
from diverset.training.settings import DataConfig
from diverset.training.sources import Chance, Indices, Source

NEIGHBOURS = 16


@dataclass(frozen=True)
class Some:
    """A part of a source."""

    source: Source
    places: np.ndarray

    def __len__(self) -> int:
        return len(self.places)

    def batch(self, indices: Indices, chance: Chance = None) -> Inputs:
        return self.source.batch(self.places[np.asarray(indices)], chance)


def make_bank(
    model: Model,
    data: DataConfig,
    cache: Path,
    size: int,
    progress: Progress | None = None,
    neighbours: int = NEIGHBOURS,
) -> Bank:
    """Encode `size` images and `size` captions of the training split, drawn by a fixed seed, and
    choose the weight on the validation split."""
    if not model.has_sets:
        raise OptionError("this model compares all local features; a bank needs sets of one size")

    def opened(split: str) -> Opened:
        architecture, words = model.architecture, model.vocabulary
        return open_split(data, split, architecture, words, cache, progress=progress, model=model)

    train, val = opened(data.train), opened(data.val)
    chance = np.random.default_rng(0)
    sources = [
        Some(one, chance.choice(len(one), min(size, len(one)), replace=False))
        for one in (train.images, train.texts)
    ]
    queries = encode_split(model, Opened(train.collection, *sources))
    bank = Bank(*queries, neighbours=min(neighbours, *(len(one) for one in queries)))
    found = encode_split(model, val, progress=named(progress, "encoding for the bank's weight"))
    return choose_weight(Member(*found, *model.own_similarity()), bank, val.collection.owners)
