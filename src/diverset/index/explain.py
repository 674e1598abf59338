"""Why a set matched: cosines of all pairs of elements, and what each adds to the score (Eq. 8).

In float64 and numpy, for the few items that are shown; it does not know where sets come from.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from jaxtyping import Float


class Explained(NamedTuple):
    """For queries and stored sets, in the precision of their cosines."""

    scores: Float[np.ndarray, "*items"]
    contributions: Float[np.ndarray, "*items query_slots slots"]
    cosines: Float[np.ndarray, "*items query_slots slots"]


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
    pairs = _items_innermost(cosines)
    (score, share), (other_score, other_share) = (_one_way(pairs, axis, alpha) for axis in (0, 1))
    contributions = np.moveaxis(share + other_share, (0, 1), (-2, -1))
    return Explained(score + other_score, np.ascontiguousarray(contributions), cosines)


def smooth_chamfer_of(
    cosines: Float[np.ndarray, "*items query_slots slots"], alpha: float
) -> Float[np.ndarray, "*items"]:
    """Smooth-Chamfer (Eq. 6) from cosines.

    >>> smooth_chamfer_of(np.full((1, 2, 2), 0.5), alpha=16.0).round(4)  # 0.5 + log(2) / 16
    array([0.5433])
    """
    pairs = _items_innermost(cosines)
    there, back = (_one_way(pairs, axis, alpha)[0] for axis in (0, 1))
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


def _items_innermost(
    cosines: Float[np.ndarray, "*items query_slots slots"],
) -> Float[np.ndarray, "query_slots slots *items"]:
    """So that sums over the few elements of a set run over whole vectors."""
    return np.ascontiguousarray(np.moveaxis(cosines, (-2, -1), (0, 1)))


def _one_way(
    pairs: Float[np.ndarray, "query_slots slots *items"], axis: int, alpha: float
) -> tuple[Float[np.ndarray, "*items"], Float[np.ndarray, "query_slots slots *items"]]:
    """One half of Eq. 6, elements along `axis` softly assigned, and of Eq. 8."""
    largest = pairs.max(axis=axis, keepdims=True)
    shares = np.exp(alpha * (pairs - largest))
    sums = shares.sum(axis=axis, keepdims=True)
    score: Float[np.ndarray, "*items"] = (largest + np.log(sums) / alpha).mean(axis=(0, 1)) / 2
    shares /= 2 * pairs.shape[1 - axis] * sums
    return score, shares
