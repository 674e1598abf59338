"""Scores of a few candidates from their original sets.

Exact search decides in float64: between items that float32 cannot tell apart, the better one wins.
"""

from __future__ import annotations

import numpy as np
from jaxtyping import Bool, Float, Int64

from diverset.index.explain import smooth_chamfer_from_cosines
from diverset.index.quantized_codes import rounding_margin

PRESELECT_FACTOR = 2  # with fewer candidates than this times k, float32 saves no float64 work
CACHED = 2**19  # bytes of float64 sets that are still in the cache when they are multiplied


def float32_scores(
    queries: Float[np.ndarray, "queries query_elements dim"],
    sets: Float[np.ndarray, "queries candidates elements dim"],
    alpha: float,
) -> Float[np.ndarray, "queries candidates"]:
    """Smooth-Chamfer of each query with its own candidates, within `rounding_margin`."""
    return smooth_chamfer_from_cosines(float32_cosines(queries, sets), alpha)


def float32_cosines(
    queries: Float[np.ndarray, "queries query_elements dim"],
    sets: Float[np.ndarray, "queries candidates elements dim"],
) -> Float[np.ndarray, "queries candidates query_elements elements"]:
    """Cosines by float32 products, as float64."""
    count, candidates, elements, dim = sets.shape
    flat = sets.reshape(count, candidates * elements, dim)
    cosines: Float[np.ndarray, "queries candidates query_elements elements"]
    cosines = np.matmul(flat, queries.transpose(0, 2, 1)).astype(np.float64)
    return cosines.reshape(count, candidates, elements, -1).swapaxes(2, 3)


def best_candidates(
    queries: Float[np.ndarray, "queries query_elements dim"],
    sets: Float[np.ndarray, "queries candidates elements dim"],
    valid: Bool[np.ndarray, "queries candidates"],
    k: int,
    alpha: float,
) -> tuple[
    Int64[np.ndarray, "queries best"] | None,
    Float[np.ndarray, "queries best query_elements elements"],
]:
    """Each query's k best candidates and all that float32 cannot tell from them.

    In numpy: for so little work, torch's threads would wait actively while those of faiss search.

    Returns their positions among the candidates, or None for all, and their float64 cosines.
    """
    count, candidates, elements, dim = sets.shape
    if candidates <= PRESELECT_FACTOR * k:
        return None, _float64_cosines(queries, sets)
    scores = float32_scores(queries, sets, alpha)
    scores[~valid] = -np.inf
    threshold = -np.partition(-scores, k - 1, axis=1)[:, k - 1 : k]
    threshold -= 2 * rounding_margin(dim, alpha)
    most = int((scores >= threshold).sum(axis=1).max())
    best = np.argpartition(-scores, most - 1, axis=1)[:, :most]
    flat = best + candidates * np.arange(count)[:, None]
    best_sets = sets.reshape(count * candidates, elements, dim).take(flat, axis=0)
    return best, _float64_cosines(queries, best_sets)


def _float64_cosines(
    queries: Float[np.ndarray, "queries query_elements dim"],
    sets: Float[np.ndarray, "queries candidates elements dim"],
) -> Float[np.ndarray, "queries candidates query_elements elements"]:
    """One product per set, so that a score does not depend on the other candidates."""
    count, candidates, elements, dim = sets.shape
    cosines = np.empty((count, candidates, queries.shape[1], elements))
    step = max(1, CACHED // (8 * candidates * elements * dim))
    buffer = np.empty((min(step, count), candidates, elements, dim))
    wide_queries = queries.astype(np.float64)
    for start in range(0, count, step):
        batch = slice(start, min(start + step, count))
        wide_sets = buffer[: batch.stop - start]
        wide_sets[:] = sets[batch]
        np.matmul(wide_queries[batch, None], wide_sets.swapaxes(2, 3), out=cosines[batch])
    return cosines
