"""Why a set matched: cosines of all pairs of elements, and what each adds to the score (Eq. 8)."""

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
    """Smooth-Chamfer (Eq. 6) of a query with each set, and its gradient by the cosines (Eq. 8).

    >>> both = explain(np.eye(2), np.eye(2)[None], alpha=16.0)
    >>> both.scores.round(4), both.contributions[0].round(2).tolist()
    (array([1.]), [[0.5, 0.0], [0.0, 0.5]])
    """
    cosines = np.einsum("qd,nsd->nqs", query.astype(np.float64), sets.astype(np.float64))
    to_set, along_set = _soft_maximum(cosines, alpha, axis=2)
    to_query, along_query = _soft_maximum(cosines, alpha, axis=1)
    _, queries, slots = cosines.shape
    scores = (to_set.mean(axis=1) + to_query.mean(axis=1)) / 2
    return Explained(scores, along_set / (2 * queries) + along_query / (2 * slots), cosines)


def _soft_maximum(cosines: np.ndarray, alpha: float, axis: int) -> tuple[np.ndarray, np.ndarray]:
    """log-sum-exp / alpha along an axis, and its gradient, the softmax."""
    largest = cosines.max(axis=axis, keepdims=True)
    weights = np.exp(alpha * (cosines - largest))
    total = weights.sum(axis=axis, keepdims=True)
    return (largest + np.log(total) / alpha).squeeze(axis), weights / total
