"""From found items to hits with ids and metadata, and ranking by other score functions."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from jaxtyping import Float, Int64

from diverset.index.item_database import ItemDatabase
from diverset.index.scan import Scan
from diverset.index.scoring import BATCH_BYTES, Found
from diverset.index.set_store import Hit

ScoreFunction = Callable[
    [Float[np.ndarray, "items query_elements elements"]], Float[np.ndarray, " items"]
]
"""From the cosines of elements to scores, larger is better."""


def make_hits(database: ItemDatabase, scan: Scan, found: Found) -> list[list[Hit]]:
    """Found items as hits, with their ids and metadata."""
    counts, width = found.counts.tolist(), found.positions.shape[1]
    positions, scores = found.positions.ravel(), found.scores.ravel()
    cosines = found.cosines.reshape(-1, *found.cosines.shape[2:])
    if min(counts, default=0) < width:  # some queries have fewer hits
        valid = np.flatnonzero(np.arange(width) < found.counts[:, None])
        positions, scores, cosines = positions[valid], scores[valid], cosines[valid]
    hits = _make_hits(database, scan.rows[positions], scores, cosines)
    ends = np.cumsum(found.counts).tolist()
    return [hits[end - count : end] for count, end in zip(counts, ends, strict=True)]


def _make_hits(
    database: ItemDatabase,
    rows: Int64[np.ndarray, " hits"],
    scores: Float[np.ndarray, " hits"],
    cosines: Float[np.ndarray, "hits query_elements elements"],
) -> list[Hit]:
    items = database.ids_and_metadata(rows.tolist())
    alpha, hits, new = database.settings.alpha, [], Hit.__new__
    for (item, metadata), score, pairs in zip(items, scores.tolist(), cosines, strict=True):
        hit = new(Hit)  # not by __init__: that of a frozen class takes twice as long
        hit.__dict__.update(
            id=item, score=score, metadata=metadata.copy(), cosines=pairs, alpha=alpha
        )  # a copy of the metadata: the original is cached
        hits.append(hit)
    return hits


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
    return _make_hits(
        database,
        np.concatenate(rows)[order],
        np.concatenate(scores)[order],
        np.concatenate(cosines)[order].astype(np.float64),
    )
