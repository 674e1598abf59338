"""Why a set matched: cosines of all pairs of elements, and what each adds to the score (Eq. 8).

In float64 and numpy, for the few items that are shown; it does not know where sets come from.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property
from typing import NamedTuple

import numpy as np
from jaxtyping import Float

# Up to here exp(alpha * cosine) is far from both ends of float64, and serves both directions.
LARGEST_PLAIN_ALPHA = 300.0


class Explained(NamedTuple):
    """For queries and stored sets."""

    scores: Float[np.ndarray, "*items"]
    contributions: Float[np.ndarray, "*items query_slots slots"]
    cosines: Float[np.ndarray, "*items query_slots slots"]


class Why:
    """The cosines of some hits; what each pair has in the score is worked out when asked for."""

    def __init__(self, cosines: Float[np.ndarray, "hits query_slots slots"], alpha: float) -> None:
        self.cosines, self.alpha = cosines, alpha

    @cached_property
    def contributions(self) -> Float[np.ndarray, "hits query_slots slots"]:
        return contributions_of(self.cosines, self.alpha)


def explain(
    query: Float[np.ndarray, "query_slots dim"],
    sets: Float[np.ndarray, "items slots dim"],
    alpha: float,
) -> Explained:
    """Smooth-Chamfer of a query with each set, and what every pair of elements has in it.

    >>> both = explain(np.eye(2), np.eye(2)[None], alpha=16.0)
    >>> both.scores.round(4), both.contributions[0].round(2).tolist()
    (array([1.]), [[0.5, 0.0], [0.0, 0.5]])
    """
    cosines = np.einsum("qd,nsd->nqs", query.astype(np.float64), sets.astype(np.float64))
    return explain_cosines(cosines, alpha)


def explain_cosines(
    cosines: Float[np.ndarray, "*items query_slots slots"], alpha: float
) -> Explained:
    """The same for cosines that are known already."""
    (there, share), (back, other) = (
        (score, weights / (2 * elements * sums))
        for score, weights, sums, elements in _both_ways(cosines, alpha)
    )
    contributions = np.ascontiguousarray(np.moveaxis(share + other, (0, 1), (-2, -1)))
    return Explained(there + back, contributions, cosines)


def smooth_chamfer_of(
    cosines: Float[np.ndarray, "*items query_slots slots"], alpha: float
) -> Float[np.ndarray, "*items"]:
    """Smooth-Chamfer (Eq. 6) from cosines.

    >>> smooth_chamfer_of(np.full((1, 2, 2), 0.5), alpha=16.0).round(4)  # 0.5 + log(2) / 16
    array([0.5433])
    """
    there, back = (score for score, *_ in _both_ways(cosines, alpha))
    scores: Float[np.ndarray, "*items"] = there + back
    return scores


def contributions_of(
    cosines: Float[np.ndarray, "*items query_slots slots"], alpha: float
) -> Float[np.ndarray, "*items query_slots slots"]:
    """d score / d cosine (Eq. 8): what each pair of elements has in the score; sums to one.

    >>> contributions_of(np.array([[[1.0, 0.0], [0.0, 1.0]]]), alpha=16.0).round(3) + 0.0
    array([[[0.5, 0. ],
            [0. , 0.5]]])
    """
    return explain_cosines(cosines, alpha).contributions


def _both_ways(
    cosines: Float[np.ndarray, "*items query_slots slots"], alpha: float
) -> Iterator[tuple[np.ndarray, np.ndarray, np.ndarray, int]]:
    """Both halves of Eq. 6: scores, the weights of the softmax, their sums, elements assigned."""
    # Items innermost: sums over the few elements of a set then run over whole vectors.
    pairs = np.ascontiguousarray(np.moveaxis(cosines, (-2, -1), (0, 1)), dtype=np.float64)
    shared = np.exp(alpha * pairs) if alpha <= LARGEST_PLAIN_ALPHA else None
    for axis in (0, 1):
        largest = 0.0 if shared is not None else pairs.max(axis=axis, keepdims=True)
        weights = np.exp(alpha * (pairs - largest)) if shared is None else shared
        sums = weights.sum(axis=axis, keepdims=True)
        scores = (largest + np.log(sums) / alpha).mean(axis=(0, 1)) / 2
        yield scores, weights, sums, pairs.shape[1 - axis]
