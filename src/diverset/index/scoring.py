"""The scores of a few items from their whole sets.

In exact search the last word is in float64: of items that float32 cannot tell apart, the better
one wins.
"""

from __future__ import annotations

import numpy as np
from jaxtyping import Bool, Float, Int64

from diverset.index.codes import slack
from diverset.index.explain import smooth_chamfer_of

MANY = 2  # times k candidates; of fewer, float32 would not spare float64 much
CACHED = 2**19  # bytes in float64 that are still in the cache when they are multiplied


def scores_of(
    queries: Float[np.ndarray, "queries query_slots dim"],
    sets: Float[np.ndarray, "queries candidates slots dim"],
    alpha: float,
) -> Float[np.ndarray, "queries candidates"]:
    """Smooth-Chamfer of each query with its own candidates, in float32: right to `slack`."""
    return smooth_chamfer_of(rough_cosines(queries, sets), alpha)


def rough_cosines(
    queries: Float[np.ndarray, "queries query_slots dim"],
    sets: Float[np.ndarray, "queries candidates slots dim"],
) -> Float[np.ndarray, "queries candidates query_slots slots"]:
    """Cosines as float32 products give them."""
    count, candidates, slots, dim = sets.shape
    flat = sets.reshape(count, candidates * slots, dim)
    cosines: Float[np.ndarray, "queries candidates query_slots slots"]
    cosines = np.matmul(flat, queries.transpose(0, 2, 1)).astype(np.float64)
    return cosines.reshape(count, candidates, slots, -1).swapaxes(2, 3)


def best(
    queries: Float[np.ndarray, "queries query_slots dim"],
    sets: Float[np.ndarray, "queries candidates slots dim"],
    valid: Bool[np.ndarray, "queries candidates"],
    k: int,
    alpha: float,
) -> tuple[
    Int64[np.ndarray, "queries few"] | None, Float[np.ndarray, "queries few query_slots slots"]
]:
    """Of each query's candidates at least the k best and whatever float32 cannot tell from them.

    In numpy: for so little, threads of torch would wait awake while those of faiss search.

    Returns their numbers among the candidates, or None for all, and their cosines in float64.
    """
    count, candidates, slots, dim = sets.shape
    if candidates <= MANY * k:
        return None, _cosines(queries, sets)
    scores = scores_of(queries, sets, alpha)
    scores[~valid] = -np.inf
    least = -np.partition(-scores, k - 1, axis=1)[:, k - 1 : k] - 2 * slack(dim, alpha)
    few = int((scores >= least).sum(axis=1).max())
    chosen = np.argpartition(-scores, few - 1, axis=1)[:, :few]
    places = chosen + candidates * np.arange(count)[:, None]
    kept = sets.reshape(count * candidates, slots, dim).take(places, axis=0)
    return chosen, _cosines(queries, kept)


def _cosines(
    queries: Float[np.ndarray, "queries query_slots dim"],
    sets: Float[np.ndarray, "queries few slots dim"],
) -> Float[np.ndarray, "queries few query_slots slots"]:
    """In float64, by a product of its own for each set: the same whatever else is asked."""
    count, few, slots, dim = sets.shape
    found = np.empty((count, few, queries.shape[1], slots))
    step = max(1, CACHED // (8 * few * slots * dim))
    room, asked = np.empty((min(step, count), few, slots, dim)), queries.astype(np.float64)
    for start in range(0, count, step):
        some = slice(start, min(start + step, count))
        wide = room[: some.stop - start]
        wide[:] = sets[some]
        np.matmul(asked[some, None], wide.swapaxes(2, 3), out=found[some])
    return found
