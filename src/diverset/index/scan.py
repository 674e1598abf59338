"""Finding the few items that can be among the k best, by bounds over all of them.

`Scan` holds the codes of a collection at one moment. For each query it bounds every score from
above, takes a threshold from items whose scores it knows from below, and drops whatever cannot
reach it; what is left is narrowed in the same way with closer bounds. The true k best are always
among what `survivors` returns. It does not know exact sets, ids or metadata.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import numpy as np
import torch
from jaxtyping import Bool, Float, Int64
from torch import Tensor

from diverset.index.bounds import Batch, element_bounds, estimates, mean_bounds
from diverset.index.codes import Codes, Query

Positions = Int64[Tensor, " chosen"]
WORKSPACE = 64 * 2**20  # bytes for bounds: so many queries are answered in one pass
CHUNK = 64  # bounds that are looked at through their maximum first
SEEDS = 64  # items, besides 4 k, that give the first threshold
COARSE = 4096  # more items than this are narrowed with the query's codes first
MOSTLY = 0.2  # where means leave more than this, elements are read at once
NOTHING = torch.finfo(torch.float32).min


class Scan:
    """Codes of all items, and which of them are still there."""

    def __init__(
        self, parts: Sequence[Codes], removed: Int64[np.ndarray, " removed"], alpha: float
    ) -> None:
        self.parts, self.alpha = [part for part in parts if len(part)], alpha
        empty = np.empty(0, dtype=np.int64)
        self.rows = np.concatenate([empty, *(part.rows.numpy() for part in self.parts)])
        self.starts = np.cumsum([0, *(len(part) for part in self.parts)])
        self.removed = torch.from_numpy(self.positions(removed))
        self._bounds: Callable[[Batch, Codes, Tensor], None] = mean_bounds
        self._space = torch.empty(0)

    def __len__(self) -> int:
        return len(self.rows)

    def positions(self, rows: Int64[np.ndarray, " rows"]) -> Int64[np.ndarray, " found"]:
        """Where rows of the truth stand here; those that do not are left out."""
        places = np.searchsorted(self.rows, rows)
        places = places[places < len(self.rows)] if len(self.rows) else places[:0]
        found: Int64[np.ndarray, " found"] = places[np.isin(self.rows[places], rows)]
        return np.unique(found)

    def sets_at(self, positions: Int64[Tensor, "*shape"]) -> Float[Tensor, "*shape slots dim"]:
        """The sets themselves."""
        flat = positions.flatten()
        owners = np.searchsorted(self.starts, flat.numpy(), side="right") - 1
        found = self.parts[0].sets.new_empty(len(flat), *self.parts[0].sets.shape[1:])
        for owner in np.unique(owners).tolist():
            here = torch.from_numpy(np.flatnonzero(owners == owner))
            found[here] = self.parts[owner].sets[flat[here] - int(self.starts[owner])]
        return found.view(*positions.shape, *found.shape[1:])

    def survivors(
        self, queries: Sequence[Query], k: int, allowed: Bool[Tensor, " items"] | None = None
    ) -> Iterator[Positions]:
        """For each query the positions of all items that can be among its k best."""
        at_once = max(1, WORKSPACE // (4 * max(1, len(self))))
        for start in range(0, len(queries), at_once):
            yield from self._survivors(queries[start : start + at_once], k, allowed)

    def _survivors(
        self, queries: Sequence[Query], k: int, allowed: Bool[Tensor, " items"] | None
    ) -> Iterator[Positions]:
        batch = Batch(queries, self.alpha)
        chosen = self._pass(batch, k, allowed)
        if self._bounds is mean_bounds:
            left = sum(map(len, chosen)) / (len(batch) * max(1, len(self)))
            if left > MOSTLY and len(self) > COARSE:
                self._bounds = element_bounds  # diverse sets: means tell too little, now and later
                chosen = self._pass(batch, k, allowed)
        for query, positions in zip(queries, chosen, strict=True):
            yield self.narrow(query, positions, k)

    def _pass(
        self, batch: Batch, k: int, allowed: Bool[Tensor, " items"] | None
    ) -> list[Positions]:
        """Bound everything; keep what reaches a threshold known from the most promising items."""
        bounds = self._workspace(len(batch))
        for part, start in zip(self.parts, self.starts[:-1].tolist(), strict=True):
            self._bounds(batch, part, bounds[:, start : start + len(part)])
        bounds[:, self.removed] = NOTHING
        if allowed is not None:
            bounds[:, : len(self)].masked_fill_(~allowed, NOTHING)
        chunks = bounds.view(len(batch), -1, CHUNK)
        peaks = chunks.amax(dim=2)
        found = []
        for query, chunk, peak in zip(batch.queries, chunks, peaks, strict=True):
            best = peak.topk(min(len(peak), 4 * k + SEEDS), sorted=False).indices
            seeds = best * CHUNK + chunk[best].argmax(dim=1)
            seeds = seeds[peak[best] > NOTHING].sort().values
            low, _ = self._interval(query, seeds, fine=True)
            reached = (peak >= _threshold(low, k)).nonzero()[:, 0]
            inside = (chunk[reached] >= _threshold(low, k)).nonzero()
            found.append(reached[inside[:, 0]] * CHUNK + inside[:, 1])
        return found

    def narrow(self, query: Query, positions: Positions, k: int) -> Positions:
        """Those of some (ascending) positions that can be among the k best of them."""
        for fine in (False, True):
            if fine or len(positions) > COARSE:
                low, high = self._interval(query, positions, fine)
                positions = positions[high >= _threshold(low, k)]
        return positions

    def _interval(
        self, query: Query, positions: Positions, fine: bool
    ) -> tuple[Float[Tensor, " chosen"], Float[Tensor, " chosen"]]:
        """Between which numbers the exact scores lie."""
        scores, margins = [torch.empty(0)], [torch.empty(0)]
        cuts = torch.searchsorted(positions, torch.from_numpy(self.starts)).tolist()
        for part, start, first, last in zip(
            self.parts, self.starts.tolist(), cuts[:-1], cuts[1:], strict=False
        ):
            for inner in range(first, last, COARSE):
                local = positions[inner : min(inner + COARSE, last)] - start
                score, margin = estimates(query, part, local, self.alpha, fine)
                scores.append(score)
                margins.append(margin)
        score, margin = torch.cat(scores), torch.cat(margins)
        return score - margin, score + margin

    def _workspace(self, queries: int) -> Float[Tensor, "queries padded"]:
        """Room for all bounds; its pages are kept, since new ones cost as much as filling them."""
        padded = -(-max(1, len(self)) // CHUNK) * CHUNK
        if len(self._space) < queries * padded:
            self._space = torch.empty(queries * padded)
        space = self._space[: queries * padded].view(queries, padded)
        space[:, len(self) :] = NOTHING
        return space


def _threshold(low: Float[Tensor, " known"], k: int) -> float:
    """What k items are known to reach; above `NOTHING`, which stands for items not asked for."""
    lowest = float(np.nextafter(np.float32(NOTHING), np.float32(0)))
    return lowest if len(low) < k else max(lowest, float(low.topk(k).values[-1]))
