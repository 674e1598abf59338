"""Why a set matched: cosines of all pairs of elements, and what each adds to the score (Eq. 8).

In float64 and numpy, for the few items that are shown; it does not know where sets come from.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from jaxtyping import Float

LARGEST_PLAIN_ALPHA = 300.0  # exp of it, and of its negative, is far from the ends of float64


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
    # Items innermost: sums over the few elements of a set then run over whole vectors.
    pairs = np.ascontiguousarray(np.moveaxis(cosines, (-2, -1), (0, 1)))
    plain = np.exp(alpha * pairs, dtype=np.float64) if alpha <= LARGEST_PLAIN_ALPHA else None
    (there, share), (back, other) = (_one_way(pairs, plain, axis, alpha) for axis in (0, 1))
    contributions = np.ascontiguousarray(np.moveaxis(share + other, (0, 1), (-2, -1)))
    return Explained(there + back, contributions, cosines)


def smooth_chamfer_of(
    cosines: Float[np.ndarray, "*items query_slots slots"], alpha: float
) -> Float[np.ndarray, "*items"]:
    """Smooth-Chamfer (Eq. 6) from cosines.

    >>> smooth_chamfer_of(np.full((1, 2, 2), 0.5), alpha=16.0).round(4)  # 0.5 + log(2) / 16
    array([0.5433])
    """
    return explain_cosines(cosines, alpha).scores


def contributions_of(
    cosines: Float[np.ndarray, "*items query_slots slots"], alpha: float
) -> Float[np.ndarray, "*items query_slots slots"]:
    """d score / d cosine (Eq. 8): what each pair of elements has in the score; sums to one.

    >>> contributions_of(np.array([[[1.0, 0.0], [0.0, 1.0]]]), alpha=16.0).round(3) + 0.0
    array([[[0.5, 0. ],
            [0. , 0.5]]])
    """
    return explain_cosines(cosines, alpha).contributions


def _one_way(
    pairs: Float[np.ndarray, "query_slots slots *items"],
    plain: Float[np.ndarray, "query_slots slots *items"] | None,
    axis: int,
    alpha: float,
) -> tuple[Float[np.ndarray, "*items"], Float[np.ndarray, "query_slots slots *items"]]:
    """One half of Eq. 6, elements along `axis` softly assigned, and of Eq. 8.

    Where exponentials of all pairs stay finite, the plain ones serve both halves.
    """
    largest = 0.0 if plain is not None else pairs.max(axis=axis, keepdims=True)
    weights = np.exp(alpha * (pairs - largest)) if plain is None else plain
    sums = weights.sum(axis=axis, keepdims=True)
    score: Float[np.ndarray, "*items"] = (largest + np.log(sums) / alpha).mean(axis=(0, 1)) / 2
    return score, weights / (2 * pairs.shape[1 - axis] * sums)
