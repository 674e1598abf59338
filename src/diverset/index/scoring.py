"""The exact scores of a few items, and which elements they come from; in float64."""

from __future__ import annotations

import numpy as np
from jaxtyping import Float


def cosines_of(
    query: Float[np.ndarray, "query_slots dim"], sets: Float[np.ndarray, "items slots dim"]
) -> Float[np.ndarray, "items query_slots slots"]:
    """The cosines of all pairs of elements."""
    found: Float[np.ndarray, "items query_slots slots"]
    found = np.matmul(query.astype(np.float64), sets.astype(np.float64).transpose(0, 2, 1))
    return found


def smooth_chamfer_of(
    cosines: Float[np.ndarray, "items query_slots slots"], alpha: float
) -> Float[np.ndarray, " items"]:
    """Smooth-Chamfer (Eq. 6) from cosines.

    >>> smooth_chamfer_of(np.full((1, 2, 2), 0.5), alpha=16.0).round(4)  # 0.5 + log(2) / 16
    array([0.5433])
    """
    both = [_logsumexp(alpha * cosines, axis).mean(axis=-1) for axis in (1, 2)]
    scores: Float[np.ndarray, " items"] = (both[0] + both[1]) / (2 * alpha)
    return scores


def contributions_of(
    cosines: Float[np.ndarray, "items query_slots slots"], alpha: float
) -> Float[np.ndarray, "items query_slots slots"]:
    """d score / d cosine (Eq. 8): what each pair of elements has in the score; sums to one.

    >>> contributions_of(np.array([[[1.0, 0.0], [0.0, 1.0]]]), alpha=16.0).round(3) + 0.0
    array([[[0.5, 0. ],
            [0. , 0.5]]])
    """
    both = np.zeros_like(cosines)
    for axis in (1, 2):
        weights = np.exp(alpha * (cosines - cosines.max(axis=axis, keepdims=True)))
        weights /= weights.sum(axis=axis, keepdims=True)
        both += weights / (2 * cosines.shape[3 - axis])
    return both


def _logsumexp(
    values: Float[np.ndarray, "items query_slots slots"], axis: int
) -> Float[np.ndarray, "items left"]:
    largest = values.max(axis=axis)
    shifted = np.exp(values - np.expand_dims(largest, axis))
    found: Float[np.ndarray, "items left"] = largest + np.log(shifted.sum(axis=axis))
    return found
