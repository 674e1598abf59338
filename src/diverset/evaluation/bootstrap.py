"""Is one run better than another, or was it luck with the test images?

A paired bootstrap over images: the images are drawn again with replacement, each with all its
captions and with its ranks under both runs, and RSUM is compared in every drawing. It tells how
much a difference depends on the choice of test images; it does not know of luck in training, for
which runs with several seeds are needed. Ranks are pooled over all queries, which is the mean
over folds where folds have equally many captions. It needs ranks only, no sets and no models.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from diverset.errors import InputError, OptionError
from diverset.evaluation.recall import LEVELS, Ranks

CHUNK = 2**21  # drawn indices at once


@dataclass(frozen=True)
class Comparison:
    """The second run against the first, in RSUM (percent).

    Attributes:
        first: RSUM of the first run.
        second: RSUM of the second run.
        difference: second - first.
        low: lower end of the confidence interval of the difference.
        high: upper end.
        p_value: two-sided; how often the drawings fall on the other side of no difference.
        confidence: of the interval, e.g. 0.95.
        resamples: how many drawings.
        seed: which drawings.
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


def paired_bootstrap(
    first: Ranks,
    second: Ranks,
    *,
    resamples: int = 10_000,
    seed: int = 0,
    confidence: float = 0.95,
) -> Comparison:
    """Compare two runs on the same queries.

    >>> owners = np.array([0, 0, 1])
    >>> run = Ranks(np.array([1, 3]), np.array([1, 9, 20]), owners)
    >>> paired_bootstrap(run, run, resamples=100).p_value
    1.0

    Args:
        first: the ranks of one run, e.g. `report.ranks`.
        second: those of another run on the same images and captions, in the same order.
        resamples: how many drawings.
        seed: the same seed gives the same drawings.
        confidence: of the interval.
    """
    if resamples < 1:
        raise OptionError(f"resamples is {resamples}; give 1 or more")
    if not 0 < confidence < 1:
        raise OptionError(f"confidence is {confidence}; give a number between 0 and 1")
    if len(first.image_to_text) != len(second.image_to_text) or not np.array_equal(
        first.owners, second.owners
    ):
        raise InputError(
            f"the runs differ in their queries: {len(first.image_to_text)} images and "
            f"{len(first.owners)} captions, {len(second.image_to_text)} and {len(second.owners)}; "
            "evaluate both on one collection, captions in the same order"
        )
    images = len(first.image_to_text)
    captions = np.bincount(first.owners, minlength=images).astype(np.float64)
    forth, back = _hits(first), _hits(second)
    gains = [ours - theirs for ours, theirs in zip(back, forth, strict=True)]
    drawn = _drawn_differences(gains, captions, resamples, seed)
    before = _rsum(*forth, captions)
    after = _rsum(*back, captions)
    low, high = np.quantile(drawn, [(1 - confidence) / 2, (1 + confidence) / 2])
    # One is added to each count: no number of drawings proves that a chance is zero.
    tail = min(int((drawn <= 0).sum()), int((drawn >= 0).sum())) + 1
    return Comparison(
        first=before,
        second=after,
        difference=after - before,
        low=float(low),
        high=float(high),
        p_value=min(1.0, 2 * tail / (resamples + 1)),
        confidence=confidence,
        resamples=resamples,
        seed=seed,
    )


def _hits(ranks: Ranks) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """For each image: at how many levels it is a hit, and the same summed over its captions."""
    levels = np.array(LEVELS)[:, None]
    own = (ranks.image_to_text <= levels).sum(axis=0).astype(np.float64)
    by_caption = (ranks.text_to_image <= levels).sum(axis=0)
    summed = np.bincount(ranks.owners, weights=by_caption, minlength=len(own))
    return own, summed.astype(np.float64)


def _rsum(
    own: NDArray[np.float64], by_caption: NDArray[np.float64], captions: NDArray[np.float64]
) -> float:
    return float(100 * (own.mean() + by_caption.sum() / captions.sum()))


def _drawn_differences(
    gains: list[NDArray[np.float64]], captions: NDArray[np.float64], resamples: int, seed: int
) -> NDArray[np.float64]:
    generator = np.random.default_rng(seed)
    images = len(captions)
    step = max(1, CHUNK // images)
    found = []
    for start in range(0, resamples, step):
        drawn = generator.integers(0, images, size=(min(step, resamples - start), images))
        by_image = gains[0][drawn].mean(axis=1)
        by_caption = gains[1][drawn].sum(axis=1) / captions[drawn].sum(axis=1)
        found.append(100 * (by_image + by_caption))
    return np.concatenate(found)
