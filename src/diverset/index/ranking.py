"""From candidates to hits: exact scores, ids and metadata."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import islice, starmap

import numpy as np
from jaxtyping import Float, Int64

from diverset.index.explain import smooth_chamfer_from_cosines
from diverset.index.item_database import ItemDatabase
from diverset.index.scan import Candidates, Scan
from diverset.index.scoring import best_candidates, float32_cosines
from diverset.index.set_store import Hit, Sets

BATCH_BYTES = 16 * 2**20  # of sets that are scored together
ScoreFunction = Callable[
    [Float[np.ndarray, "items query_elements elements"]], Float[np.ndarray, " items"]
]
"""From the cosines of elements to scores, larger is better."""


def rank(
    database: ItemDatabase,
    scan: Scan,
    queries: Sets,
    candidates: Candidates,
    k: int,
    exact: bool = True,
) -> Iterator[list[Hit]]:
    """The k best of each query's candidates; -1 is no candidate.

    With `exact=False`, scores come from float32 products, which differ by about 1e-6.
    """
    if not candidates.shape[1] or not len(scan):
        yield from ([] for _ in queries)
        return
    query_bytes = 4 * candidates.shape[1] * database.settings.elements * database.settings.dim
    size = max(1, BATCH_BYTES // query_bytes)
    for start in range(0, len(queries), size):
        batch = slice(start, start + size)
        yield from _rank_batch(database, scan, queries[batch], candidates[batch], k, exact)


def _rank_batch(
    database: ItemDatabase, scan: Scan, queries: Sets, candidates: Candidates, k: int, exact: bool
) -> list[list[Hit]]:
    alpha, sets = database.settings.alpha, scan.gather_sets(np.maximum(candidates, 0))
    query_index = np.arange(len(queries))[:, None]
    if exact:
        best, cosines = best_candidates(queries, sets, candidates >= 0, k, alpha)
        candidates = candidates if best is None else candidates[query_index, best]
    else:
        cosines = float32_cosines(queries, sets)
    scores = smooth_chamfer_from_cosines(cosines, alpha)
    scores[candidates < 0] = -np.inf
    rows = scan.rows[candidates]
    order = np.lexsort((rows, -scores), axis=1)[:, :k]  # ties: the older item first
    valid = scores[query_index, order] > -np.inf
    flat = (order + scores.shape[1] * query_index)[valid]
    hit_cosines = cosines.reshape(-1, *cosines.shape[2:]).take(flat, axis=0)
    hits = _make_hits(database, rows.take(flat), scores.take(flat), hit_cosines)
    return [list(islice(hits, count)) for count in valid.sum(axis=1).tolist()]


def _make_hits(
    database: ItemDatabase,
    rows: Int64[np.ndarray, " hits"],
    scores: Float[np.ndarray, " hits"],
    cosines: Float[np.ndarray, "hits query_elements elements"],
) -> Iterator[Hit]:
    items = database.ids_and_metadata(rows.tolist())
    alpha = database.settings.alpha
    return starmap(
        Hit,
        (
            (item, score, metadata.copy(), pairs, alpha)  # a copy: the original is cached
            for (item, metadata), score, pairs in zip(items, scores.tolist(), cosines, strict=True)
        ),
    )


def rank_by(
    database: ItemDatabase,
    scan: Scan,
    query: Float[np.ndarray, "query_elements dim"],
    positions: Int64[np.ndarray, " items"],
    score: ScoreFunction,
    k: int,
) -> list[Hit]:
    """The k best items at these positions by a score function."""
    size = BATCH_BYTES // (4 * database.settings.elements * database.settings.dim)
    rows, scores, cosines = [], [], []
    for start in range(0, len(positions), size):
        batch = positions[start : start + size]
        pairs = np.einsum("qd,nsd->nqs", query, scan.gather_sets(batch), optimize=True)
        values = np.asarray(score(pairs), dtype=np.float64)
        best = np.argsort(-values, kind="stable")[:k]
        rows.append(scan.rows[batch[best]])
        scores.append(values[best])
        cosines.append(pairs[best])
    if not rows:
        return []
    order = np.argsort(-np.concatenate(scores), kind="stable")[:k]
    return list(
        _make_hits(
            database,
            np.concatenate(rows)[order],
            np.concatenate(scores)[order],
            np.concatenate(cosines)[order].astype(np.float64),
        )
    )
