"""Smooth-Chamfer (Eq. 6) and the contribution of each pair of elements (Eq. 8), in float64 numpy.

The formulas are those of `diverset.similarity`.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import torch
from jaxtyping import Float

from diverset.similarity import smooth_chamfer_gradient

MAX_PLAIN_ALPHA = 600  # up to this, exp(alpha c) is a normal float64 for every cosine c
Cosines = Float[np.ndarray, "*items query_elements elements"]
Scores = Float[np.ndarray, "*items"]


class Explanation(NamedTuple):
    """Scores of sets for one query, with the contribution and the cosine of every pair."""

    scores: Scores
    contributions: Cosines
    cosines: Cosines


def explain(
    query: Float[np.ndarray, "query_elements dim"],
    sets: Float[np.ndarray, "items elements dim"],
    alpha: float,
) -> Explanation:
    """Smooth-Chamfer of a query with each set, and the contribution of every pair of elements.

    >>> both = explain(np.eye(2), np.eye(2)[None], alpha=16.0)
    >>> both.scores.round(4), both.contributions[0].round(2).tolist()
    (array([1.]), [[0.5, 0.0], [0.0, 0.5]])
    """
    cosines = pair_cosines(query, sets)
    scores = smooth_chamfer_from_cosines(cosines, alpha)
    return Explanation(scores, contributions(cosines, alpha), cosines)


def pair_cosines(
    query: Float[np.ndarray, "query_elements dim"], sets: Float[np.ndarray, "items elements dim"]
) -> Float[np.ndarray, "items query_elements elements"]:
    cosines: Cosines
    cosines = np.einsum("qd,nsd->nqs", query.astype(np.float64), sets.astype(np.float64))
    return cosines


def smooth_chamfer_from_cosines(cosines: Cosines, alpha: float) -> Scores:
    """Smooth-Chamfer (Eq. 6).

    >>> smooth_chamfer_from_cosines(np.full((1, 2, 2), 0.5), alpha=16.0).round(4)
    array([0.5433])
    """
    # Items innermost: sums over the few elements of a set then vectorize over the items. Not by
    # torch, whose threads cost more than this little work, and make it wait where cores are busy.
    pairs = np.array(np.moveaxis(cosines, (-2, -1), (0, 1)), dtype=np.float64, order="C")
    pairs *= alpha
    if alpha <= MAX_PLAIN_ALPHA:
        exponentials = np.exp(pairs)
        to_item, to_query = (np.log(exponentials.sum(axis)).mean(0) for axis in (1, 0))
    else:
        to_item, to_query = (np.logaddexp.reduce(pairs, axis).mean(0) for axis in (1, 0))
    scores: Scores = (to_item + to_query) / (2 * alpha)
    return scores


def contributions(cosines: Cosines, alpha: float) -> Cosines:
    """d score / d cosine of every pair (Eq. 8); they sum to one.

    >>> contributions(np.array([[[1.0, 0.0], [0.0, 1.0]]]), alpha=16.0).round(3)
    array([[[0.5, 0. ],
            [0. , 0.5]]])
    """
    pairs = np.array(cosines, dtype=np.float64).reshape(-1, *cosines.shape[-2:], 1)
    gradient = smooth_chamfer_gradient(torch.from_numpy(pairs), alpha)
    return gradient.numpy().reshape(cosines.shape)
