"""Augmentation of features in training: dropped regions, dropped cells, dropped words (Sec. 4.2).

The paper drops 20 % of regions and of words; what a dropped word becomes follows the released
code: a mask token half of the time, another word in a tenth, nothing in the rest. Every function
takes its random generator and never drops all there is. Nothing here knows models.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

import numpy as np
import torch
from jaxtyping import Bool
from torch import Tensor

from diverset.data.vocabulary import END, PAD, START
from diverset.errors import OptionError
from diverset.types import Padded

KEEP = 0.8
MASKED, REPLACED = 0.5, 0.1
"""What becomes of a word that is hit; the rest is deleted."""


def drop_inputs(
    mask: Bool[Tensor, "batch inputs"], generator: np.random.Generator, keep: float = KEEP
) -> Bool[Tensor, "batch inputs"]:
    """Keep each real input with probability `keep`, at least one a sample.

    >>> drop_inputs(torch.tensor([[True, True, False]]), np.random.default_rng(0), keep=0.0).sum()
    tensor(1)
    """
    _check_probability("keep", keep)
    real = mask.cpu().numpy()
    draws = generator.random(real.shape)
    kept = real & (draws < keep)
    # The input with the luckiest draw stays, whatever `keep` says.
    lucky = np.where(real, draws, 2.0).argmin(axis=1)
    rows = np.flatnonzero(real.any(axis=1) & ~kept.any(axis=1))
    kept[rows, lucky[rows]] = True
    return torch.from_numpy(kept).to(mask.device)


def drop_regions(regions: Padded, generator: np.random.Generator, keep: float = KEEP) -> Padded:
    """Hide regions of a batch from the model; their values stay, their mask becomes False."""
    return Padded(regions.values, drop_inputs(regions.mask, generator, keep))


def drop_cells(
    batch: int, height: int, width: int, generator: np.random.Generator, keep: float = KEEP
) -> Bool[Tensor, "batch cells"]:
    """Which cells of feature maps remain, in row-major order: a mask for `ConvolutionalFeatures`.

    >>> drop_cells(2, 9, 9, np.random.default_rng(0)).shape
    torch.Size([2, 81])
    """
    return drop_inputs(torch.ones(batch, height * width, dtype=torch.bool), generator, keep)


def drop_words(
    ids: Sequence[int],
    generator: np.random.Generator,
    *,
    mask_id: int,
    words: range,
    protected: Collection[int] = (PAD, START, END),
    rate: float = 1 - KEEP,
) -> list[int]:
    """Hit each word with probability `rate`: mask it, replace it, or leave it out.

    At least one word is never touched, so a caption cannot lose all it says.

    Args:
        ids: the caption, start and end tokens included.
        generator: where chance comes from.
        mask_id: stands for a word that is masked; a vocabulary without a mask token uses the
            unknown word.
        words: ids to draw replacements from, without special ones: range(4, len(vocabulary)).
        protected: ids that are never touched.
        rate: how often a word is hit.

    >>> drop_words([1, 7, 8, 9, 2], np.random.default_rng(0), mask_id=3, words=range(4, 20))
    [1, 7, 8, 3, 2]
    """
    _check_probability("rate", rate)
    if not len(words):
        raise OptionError(f"words is {words}, which is empty; give the ids of ordinary words")
    free = [place for place, number in enumerate(ids) if number not in protected]
    draws = generator.random(len(free))
    hit = draws < rate
    if len(free) and hit.all():
        hit[draws.argmax()] = False
    fates = dict(zip(np.array(free)[hit].tolist(), generator.random(int(hit.sum())), strict=True))
    result: list[int] = []
    for place, number in enumerate(ids):
        fate = fates.get(place)
        if fate is None:
            result.append(int(number))
        elif fate < MASKED:
            result.append(mask_id)
        elif fate < MASKED + REPLACED:
            result.append(words[int(generator.integers(len(words)))])
    return result


def _check_probability(name: str, value: float) -> None:
    if not 0 <= value <= 1:
        raise OptionError(f"{name} is {value}; give a probability from 0 to 1")
