"""Ranks a few candidates by scores from their original sets, in numpy.

Exact search decides in float64: between items that float32 cannot tell apart, the better one wins.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
from jaxtyping import Bool, Float, Int64

from diverset.index.explain import smooth_chamfer_from_cosines
from diverset.index.quantized_codes import rounding_margin

PRESELECT_FACTOR = 2  # with fewer candidates than this times k, float32 saves no float64 work
BATCH_BYTES = 16 * 2**20  # of sets that are scored together
CACHED = 2**19  # bytes of float64 sets that are still in the cache when they are multiplied

Candidates = Int64[np.ndarray, "queries candidates"]
"""Positions for each query; -1 is no candidate."""
GatherFunction = Callable[[Int64[np.ndarray, "*shape"]], Float[np.ndarray, "*shape elements dim"]]
"""The original sets at some positions."""


class Found(NamedTuple):
    """The best items of each query, best first; rows beyond `counts` are undefined."""

    counts: Int64[np.ndarray, " queries"]
    positions: Int64[np.ndarray, "queries k"]
    scores: Float[np.ndarray, "queries k"]
    cosines: Float[np.ndarray, "queries k query_elements elements"]

    @classmethod
    def of_batches(cls, batches: Sequence[Found]) -> Found:
        """One result for the queries of several."""
        if len(batches) == 1:
            return batches[0]
        return cls(*(np.concatenate(arrays) for arrays in zip(*batches, strict=True)))


def rank_candidates(
    queries: Float[np.ndarray, "queries query_elements dim"],
    candidates: Candidates,
    gather_sets: GatherFunction,
    k: int,
    alpha: float,
    exact: bool,
) -> Found:
    """The k best of each query's candidates.

    With `exact=False`, scores come from float32 products, which differ by about 1e-6.
    """
    count, width = candidates.shape
    elements, dim = gather_sets(np.zeros(1, dtype=np.int64)).shape[1:]
    size = max(1, BATCH_BYTES // (4 * max(1, width) * elements * dim))
    return Found.of_batches(
        [
            _rank_batch(queries[batch], candidates[batch], gather_sets, k, alpha, exact)
            for batch in (slice(start, start + size) for start in range(0, count, size))
        ]
    )


def _rank_batch(
    queries: Float[np.ndarray, "queries query_elements dim"],
    candidates: Candidates,
    gather_sets: GatherFunction,
    k: int,
    alpha: float,
    exact: bool,
) -> Found:
    sets = gather_sets(np.maximum(candidates, 0))
    query_index = np.arange(len(queries))[:, None]
    if exact:
        best, cosines = best_candidates(queries, sets, candidates >= 0, k, alpha)
        candidates = candidates if best is None else candidates[query_index, best]
    else:
        cosines = float32_cosines(queries, sets)
    scores = smooth_chamfer_from_cosines(cosines, alpha)
    scores[candidates < 0] = -np.inf
    order = np.lexsort((candidates, -scores), axis=1)[:, :k]  # ties: the older item first
    scores = np.take_along_axis(scores, order, axis=1)
    positions = np.take_along_axis(candidates, order, axis=1)
    return Found((scores > -np.inf).sum(axis=1), positions, scores, cosines[query_index, order])


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
    step = max(1, CACHED // (8 * max(1, candidates) * elements * dim))
    buffer = np.empty((min(step, count), candidates, elements, dim))
    wide_queries = queries.astype(np.float64)
    for start in range(0, count, step):
        batch = slice(start, min(start + step, count))
        wide_sets = buffer[: batch.stop - start]
        wide_sets[:] = sets[batch]
        np.matmul(wide_queries[batch, None], wide_sets.swapaxes(2, 3), out=cosines[batch])
    return cosines
