"""Paired bootstrap: is the difference between two runs more than chance?

Images are resampled with replacement, each with all its captions and its ranks under both runs,
and the difference in RSUM is computed for every resample. This measures how much the difference
depends on the choice of test images; the variance of training needs runs with several seeds. Ranks
are pooled over all queries, which equals the mean over folds if all folds have the same number of
captions.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float
from numpy.typing import NDArray

from diverset.errors import InputError, OptionError
from diverset.evaluation.recall import LEVELS, Ranks

CHUNK = 2**21  # indices drawn at once


@dataclass(frozen=True)
class Comparison:
    """RSUM of two runs in percent, and their difference, second - first.

    `low` and `high` are the ends of the confidence interval of the difference; `p_value` is
    two-sided, of no difference.
    """

    first: float
    second: float
    difference: float
    low: float
    high: float
    p_value: float
    confidence: float
    resamples: int
    seed: int

    def __str__(self) -> str:
        return (
            f"RSUM {self.second:.1f} - {self.first:.1f} = {self.difference:+.1f}, "
            f"{self.confidence:.0%} interval {self.low:+.1f} to {self.high:+.1f}, "
            f"p = {self.p_value:.4f} (paired bootstrap, {self.resamples:,} resamples)"
        )


def paired_bootstrap(
    first: Ranks,
    second: Ranks,
    *,
    resamples: int = 10_000,
    seed: int = 0,
    confidence: float = 0.95,
) -> Comparison:
    """Compare two runs on the same queries in the same order, by their `report.ranks`.

    >>> image_index = np.array([0, 0, 1])
    >>> run = Ranks(np.array([1, 3]), np.array([1, 9, 20]), image_index)
    >>> paired_bootstrap(run, run, resamples=100).p_value
    1.0
    """
    if resamples < 1:
        raise OptionError(f"resamples is {resamples}; give 1 or more")
    if not 0 < confidence < 1:
        raise OptionError(f"confidence is {confidence}; give a number between 0 and 1")
    _check_same_queries(first, second)
    captions = np.bincount(first.image_index, minlength=len(first.image_to_text))
    first_hits, second_hits = _hits(first), _hits(second)
    differences = _resampled_differences(second_hits - first_hits, captions, resamples, seed)
    first_rsum, second_rsum = (
        float(100 * (by_image.mean() + by_caption.sum() / captions.sum()))
        for by_image, by_caption in (first_hits, second_hits)
    )
    low, high = np.quantile(differences, [(1 - confidence) / 2, (1 + confidence) / 2])
    # One is added to each count: no number of resamples proves that a probability is zero.
    tail = min(int((differences <= 0).sum()), int((differences >= 0).sum())) + 1
    return Comparison(
        first=first_rsum,
        second=second_rsum,
        difference=second_rsum - first_rsum,
        low=float(low),
        high=float(high),
        p_value=min(1.0, 2 * tail / (resamples + 1)),
        confidence=confidence,
        resamples=resamples,
        seed=seed,
    )


def _check_same_queries(first: Ranks, second: Ranks) -> None:
    sizes = [(len(run.image_to_text), len(run.image_index)) for run in (first, second)]
    if sizes[0] != sizes[1] or (first.image_index != second.image_index).any():
        raise InputError(
            f"the runs have different queries: {sizes[0][0]} images and {sizes[0][1]} captions, "
            f"{sizes[1][0]} and {sizes[1][1]}; evaluate both on one collection, captions in the "
            "same order"
        )


def _hits(ranks: Ranks) -> Float[NDArray[np.float64], "2 images"]:
    """For each image the recall levels that it reaches, and the sum of those of its captions."""
    by_image, by_caption = (
        np.sum([side <= level for level in LEVELS], axis=0)
        for side in (ranks.image_to_text, ranks.text_to_image)
    )
    summed = np.bincount(ranks.image_index, weights=by_caption, minlength=len(by_image))
    return np.stack([by_image, summed])


def _resampled_differences(
    gains: Float[NDArray[np.float64], "2 images"],
    captions: NDArray[np.int64],
    resamples: int,
    seed: int,
) -> NDArray[np.float64]:
    rng = np.random.default_rng(seed)
    images = len(captions)
    step = max(1, CHUNK // images)
    differences = []
    for start in range(0, resamples, step):
        drawn = rng.integers(0, images, size=(min(step, resamples - start), images))
        by_image = gains[0][drawn].mean(axis=1)
        by_caption = gains[1][drawn].sum(axis=1) / captions[drawn].sum(axis=1)
        differences.append(100 * (by_image + by_caption))
    return np.concatenate(differences)
