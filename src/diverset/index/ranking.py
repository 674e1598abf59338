"""From candidates to hits: exact scores, ids and metadata, and which elements matched."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np
from jaxtyping import Float, Int64
from torch import Tensor

from diverset.index.base import Hit, Sets
from diverset.index.explain import contributions_of, smooth_chamfer_of
from diverset.index.scan import Scan
from diverset.index.scoring import best
from diverset.index.truth import Truth

AT_ONCE = 64 * 2**20  # bytes of sets that are scored together
Rule = Callable[[Float[np.ndarray, "items query_slots slots"]], Float[np.ndarray, " items"]]
"""From the cosines of elements to scores, larger is better."""


def ranked(
    truth: Truth, scan: Scan, queries: Sets, candidates: Int64[Tensor, "queries candidates"], k: int
) -> Iterator[list[Hit]]:
    """The k best of each query's candidates; -1 stands for none."""
    if not candidates.shape[1] or not len(scan):
        yield from ([] for _ in queries)
        return
    size = 4 * candidates.shape[1] * truth.settings.slots * truth.settings.dim
    for start in range(0, len(queries), max(1, AT_ONCE // size)):
        some = slice(start, start + max(1, AT_ONCE // size))
        yield from _ranked(truth, scan, queries[some], candidates[some], k)


def _ranked(
    truth: Truth, scan: Scan, queries: Sets, candidates: Int64[Tensor, "queries candidates"], k: int
) -> Iterator[list[Hit]]:
    alpha, valid = truth.settings.alpha, candidates >= 0
    few, cosines = best(queries, scan.sets_at(candidates.clamp(min=0)), valid, k, alpha)
    scores = smooth_chamfer_of(cosines, alpha)
    scores[~np.take_along_axis(valid.numpy(), few, axis=1)] = -np.inf
    rows = scan.rows[np.take_along_axis(candidates.numpy(), few, axis=1)]
    order = np.lexsort((rows, -scores), axis=1)[:, :k]  # of equals, the older one
    rows, scores = np.take_along_axis(rows, order, 1), np.take_along_axis(scores, order, 1)
    cosines = np.take_along_axis(cosines, order[:, :, None, None], 1)
    weights = contributions_of(cosines, alpha)
    names = truth.names(np.unique(rows).tolist())
    for one in zip(rows.tolist(), scores.tolist(), weights, cosines, strict=True):
        yield [
            Hit(names[row][0], score, names[row][1], weight, cosine)
            for row, score, weight, cosine in zip(*one, strict=True)
            if score > -np.inf
        ]


def ranked_by(
    truth: Truth,
    scan: Scan,
    query: Float[np.ndarray, "query_slots dim"],
    chosen: Int64[Tensor, " items"],
    rule: Rule,
    k: int,
) -> list[Hit]:
    """The k best of some items by a rule."""
    at_once = AT_ONCE // (4 * truth.settings.slots * truth.settings.dim)
    rows, scores, cosines = [], [], []
    for start in range(0, len(chosen), at_once):
        some = chosen[start : start + at_once]
        found = np.einsum("qd,nsd->nqs", query, scan.sets_at(some).numpy(), optimize=True)
        each = np.asarray(rule(found), dtype=np.float64)
        best = np.argsort(-each, kind="stable")[:k]
        rows.append(scan.rows[some.numpy()[best]])
        scores.append(each[best])
        cosines.append(found[best])
    if not rows:
        return []
    order = np.argsort(-np.concatenate(scores), kind="stable")[:k]
    kept, pairs = np.concatenate(rows)[order].tolist(), np.concatenate(cosines)[order]
    names, weights = truth.names(kept), contributions_of(pairs, truth.settings.alpha)
    return [
        Hit(names[row][0], float(np.concatenate(scores)[at]), names[row][1], weight, pair)
        for row, at, weight, pair in zip(kept, order, weights, pairs, strict=True)
    ]
