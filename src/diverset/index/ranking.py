"""From candidates to hits: scores, ids and metadata, and which elements matched."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import islice

import numpy as np
from jaxtyping import Float, Int64

from diverset.index.base import Hit, Sets, hits_of
from diverset.index.explain import Why, smooth_chamfer_of
from diverset.index.scan import Candidates, Scan
from diverset.index.scoring import best, rough_cosines
from diverset.index.truth import Truth

AT_ONCE = 16 * 2**20  # bytes of sets that are scored together
Rule = Callable[[Float[np.ndarray, "items query_slots slots"]], Float[np.ndarray, " items"]]
"""From the cosines of elements to scores, larger is better."""


def ranked(
    truth: Truth, scan: Scan, queries: Sets, candidates: Candidates, k: int, exact: bool = True
) -> Iterator[list[Hit]]:
    """The k best of each query's candidates; -1 stands for none.

    Where not even the candidates are exact, products in float32 will do: they move a
    score by about 1e-6.
    """
    if not candidates.shape[1] or not len(scan):
        yield from ([] for _ in queries)
        return
    size = 4 * candidates.shape[1] * truth.settings.slots * truth.settings.dim
    for start in range(0, len(queries), max(1, AT_ONCE // size)):
        some = slice(start, start + max(1, AT_ONCE // size))
        yield from _ranked(truth, scan, queries[some], candidates[some], k, exact)


def _ranked(
    truth: Truth, scan: Scan, queries: Sets, candidates: Candidates, k: int, exact: bool
) -> list[list[Hit]]:
    alpha, sets = truth.settings.alpha, scan.sets_at(np.maximum(candidates, 0))
    if exact:
        few, cosines = best(queries, sets, candidates >= 0, k, alpha)
    else:
        few, cosines = None, rough_cosines(queries, sets)
    scores = smooth_chamfer_of(cosines, alpha)
    each = np.arange(len(queries))[:, None]
    places = candidates if few is None else candidates[each, few]
    scores[places < 0] = -np.inf
    rows = scan.rows[places]
    order = np.lexsort((rows, -scores), axis=1)[:, :k]  # of equals, the older one
    there = scores[each, order] > -np.inf
    flat = (order + scores.shape[1] * each)[there]
    kept = cosines.reshape(-1, *cosines.shape[2:]).take(flat, axis=0)
    hits = iter(_hits(truth, rows.take(flat), scores.take(flat), kept))
    return [list(islice(hits, count)) for count in there.sum(axis=1).tolist()]


def _hits(
    truth: Truth,
    rows: Int64[np.ndarray, " hits"],
    scores: Float[np.ndarray, " hits"],
    cosines: Float[np.ndarray, "hits query_slots slots"],
) -> list[Hit]:
    if not len(rows):
        return []
    ids, metadata = zip(*truth.names(rows.tolist()), strict=True)
    own = list(map(dict.copy, metadata))  # what a caller does to them is not to be kept
    return hits_of(ids, scores.tolist(), own, Why(cosines, truth.settings.alpha))


def ranked_by(
    truth: Truth,
    scan: Scan,
    query: Float[np.ndarray, "query_slots dim"],
    chosen: Int64[np.ndarray, " items"],
    rule: Rule,
    k: int,
) -> list[Hit]:
    """The k best of some items by a rule."""
    at_once = AT_ONCE // (4 * truth.settings.slots * truth.settings.dim)
    rows, scores, cosines = [], [], []
    for start in range(0, len(chosen), at_once):
        some = chosen[start : start + at_once]
        found = np.einsum("qd,nsd->nqs", query, scan.sets_at(some), optimize=True)
        each = np.asarray(rule(found), dtype=np.float64)
        best = np.argsort(-each, kind="stable")[:k]
        rows.append(scan.rows[some[best]])
        scores.append(each[best])
        cosines.append(found[best])
    if not rows:
        return []
    order = np.argsort(-np.concatenate(scores), kind="stable")[:k]
    kept = np.concatenate(rows)[order]
    pairs = np.concatenate(cosines)[order].astype(np.float64)
    return _hits(truth, kept, np.concatenate(scores)[order], pairs)
