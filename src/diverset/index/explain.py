"""Why a set matched: cosines of all pairs of elements, and what each adds to the score (Eq. 8).

In float64 and numpy, for the few items that are shown; it does not know where sets come from.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from jaxtyping import Float


class Explained(NamedTuple):
    """For one query and several stored sets, in float64."""

    scores: Float[np.ndarray, " items"]
    contributions: Float[np.ndarray, "items query_slots slots"]
    cosines: Float[np.ndarray, "items query_slots slots"]


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
    return Explained(smooth_chamfer_of(cosines, alpha), contributions_of(cosines, alpha), cosines)


def smooth_chamfer_of(
    cosines: Float[np.ndarray, "*items query_slots slots"], alpha: float
) -> Float[np.ndarray, "*items"]:
    """Smooth-Chamfer (Eq. 6) from cosines.

    >>> smooth_chamfer_of(np.full((1, 2, 2), 0.5), alpha=16.0).round(4)  # 0.5 + log(2) / 16
    array([0.5433])
    """
    both = [_logsumexp(alpha * cosines, axis).mean(axis=-1) for axis in (-2, -1)]
    scores: Float[np.ndarray, "*items"] = (both[0] + both[1]) / (2 * alpha)
    return scores


def contributions_of(
    cosines: Float[np.ndarray, "*items query_slots slots"], alpha: float
) -> Float[np.ndarray, "*items query_slots slots"]:
    """d score / d cosine (Eq. 8): what each pair of elements has in the score; sums to one.

    >>> contributions_of(np.array([[[1.0, 0.0], [0.0, 1.0]]]), alpha=16.0).round(3) + 0.0
    array([[[0.5, 0. ],
            [0. , 0.5]]])
    """
    both = np.zeros_like(cosines)
    for axis in (-2, -1):
        weights = np.exp(alpha * (cosines - cosines.max(axis=axis, keepdims=True)))
        weights /= weights.sum(axis=axis, keepdims=True)
        both += weights / (2 * cosines.shape[-3 - axis])
    return both


def _logsumexp(
    values: Float[np.ndarray, "*items query_slots slots"], axis: int
) -> Float[np.ndarray, "*items left"]:
    largest = values.max(axis=axis)
    shifted = np.exp(values - np.expand_dims(largest, axis))
    found: Float[np.ndarray, "*items left"] = largest + np.log(shifted.sum(axis=axis))
    return found
