"""Augmentation of features in training: drop regions, cells and words (Sec. 4.2).

The paper drops 20 % of the regions and words. A dropped word follows the released code: masked in
50 %, replaced in 10 % and deleted in 40 % of the cases. At least one input is always kept.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

import numpy as np
import torch
from jaxtyping import Bool
from torch import Tensor

from diverset.data.vocabulary import END, PAD, START
from diverset.errors import OptionError

KEEP = 0.8
MASKED, REPLACED = 0.5, 0.1
"""Share of dropped words that are masked or replaced; the others are deleted."""


def drop_inputs(
    mask: Bool[Tensor, "batch inputs"], rng: np.random.Generator, keep: float = KEEP
) -> Bool[Tensor, "batch inputs"]:
    """The mask of the inputs to keep: each with probability `keep`, at least one per sample.

    Inputs are regions, cells of a feature map or tokens.

    >>> drop_inputs(torch.tensor([[True, True, False]]), np.random.default_rng(0), keep=0.0).sum()
    tensor(1)
    """
    _check_probability("keep", keep)
    real = mask.cpu().numpy()
    draws = rng.random(real.shape)
    kept = real & (draws < keep)
    # If none is left, keep the input with the smallest draw.
    smallest = np.where(real, draws, 2.0).argmin(axis=1)
    rows = np.flatnonzero(real.any(axis=1) & ~kept.any(axis=1))
    kept[rows, smallest[rows]] = True
    return torch.from_numpy(kept).to(mask.device)


def drop_words(
    ids: Sequence[int],
    rng: np.random.Generator,
    *,
    mask_id: int,
    words: range,
    protected: Collection[int] = (PAD, START, END),
    rate: float = 1 - KEEP,
) -> list[int]:
    """Drop each word with probability `rate`: mask, replace or delete it.

    At least one word is kept unchanged.

    Args:
        ids: the caption, start and end tokens included.
        rng: random generator.
        mask_id: id of a masked word; a vocabulary without a mask token uses the unknown word.
        words: ids of replacements, without special tokens: range(4, len(vocabulary)).
        protected: ids that are never dropped.
        rate: probability that a word is dropped.

    >>> drop_words([1, 7, 8, 9, 2], np.random.default_rng(0), mask_id=3, words=range(4, 20))
    [1, 7, 8, 3, 2]
    """
    _check_probability("rate", rate)
    if not len(words):
        raise OptionError(f"words is {words}, which is empty; give the ids of ordinary words")
    candidates = [position for position, word in enumerate(ids) if word not in protected]
    draws = rng.random(len(candidates))
    dropped = draws < rate
    if len(candidates) and dropped.all():
        dropped[draws.argmax()] = False
    positions = np.array(candidates)[dropped].tolist()
    actions = dict(zip(positions, rng.random(len(positions)), strict=True))
    result: list[int] = []
    for position, word in enumerate(ids):
        action = actions.get(position)
        if action is None:
            result.append(int(word))
        elif action < MASKED:
            result.append(mask_id)
        elif action < MASKED + REPLACED:
            result.append(words[int(rng.integers(len(words)))])
    return result


def _check_probability(name: str, value: float) -> None:
    if not 0 <= value <= 1:
        raise OptionError(f"{name} is {value}; give a probability from 0 to 1")
