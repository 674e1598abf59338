"""Finding the few items that can be among the k best, by bounds over all of them.

`Scan` holds the codes of a collection at one moment. For each query it bounds every score from
above, takes a threshold from items whose scores it knows from below, and drops whatever cannot
reach it; what is left is narrowed in the same way with closer bounds. The true k best are always
among what `survivors` returns. It does not know exact sets, ids or metadata.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence

import numpy as np
import torch
from jaxtyping import Bool, Float, Int64
from torch import Tensor

from diverset.index.bounds import Batch, element_bounds, estimates, mean_bounds
from diverset.index.codes import Codes, Query, slack
from diverset.index.scoring import scores_of

Bound = Callable[[Batch, Codes, Tensor], None]
Positions = Int64[Tensor, " chosen"]
Candidates = Int64[np.ndarray, "queries candidates"]
"""Positions for each query; -1 stands for none."""
WORKSPACE = 64 * 2**20  # bytes for bounds: so many queries are answered in one pass
CHUNK = 64  # bounds that are looked at through their maximum first
SEEDS = 4  # times k items give the first threshold
FEW = 128  # items that are scored at once; more are narrowed by their codes first
PORTION = 4096  # items that are narrowed at once
MOSTLY = 0.2  # where means leave more than this, elements are read at once
SMALL = 100  # a larger k leaves much by itself, and says nothing about the sets
KEPT = 2**20  # bytes for bounds that are kept between calls, or four queries' if that is more
KEPT_SETS = 2 * 2**20  # bytes for sets that are kept in the same way
NOTHING = torch.finfo(torch.float32).min


class Scan:
    """Codes of all items, and which of them are still there."""

    def __init__(
        self, parts: Sequence[Codes], removed: Int64[np.ndarray, " removed"], alpha: float
    ) -> None:
        self.parts, self.alpha = [part for part in parts if len(part)], alpha
        empty = np.empty(0, dtype=np.int64)
        self.rows = np.concatenate([empty, *(part.rows.numpy() for part in self.parts)])
        self.sets = [part.sets.numpy() for part in self.parts]
        self.starts = np.cumsum([0, *(len(part) for part in self.parts)])
        self.removed = torch.from_numpy(self.positions(removed))
        self._bounds: Bound = mean_bounds
        self._space = torch.empty(0)
        self._taken = np.empty((0, 0, 0), dtype=np.float32)

    def __len__(self) -> int:
        return len(self.rows)

    def positions(self, rows: Int64[np.ndarray, " rows"]) -> Int64[np.ndarray, " found"]:
        """Where rows of the truth stand here; those that do not are left out."""
        places = np.searchsorted(self.rows, rows)
        places = places[places < len(self.rows)] if len(self.rows) else places[:0]
        found: Int64[np.ndarray, " found"] = places[np.isin(self.rows[places], rows)]
        return np.unique(found)

    def sets_at(
        self, positions: Int64[np.ndarray, "*shape"]
    ) -> Float[np.ndarray, "*shape slots dim"]:
        """The sets themselves, at least one, in memory that the next call overwrites."""
        flat, shape = positions.ravel(), self.sets[0].shape[1:]
        if len(self._taken) < len(flat):  # kept, since new pages cost more than copying
            self._taken = np.empty((len(flat), *shape), dtype=np.float32)
        found = self._taken[: len(flat)]
        if found.nbytes > KEPT_SETS:
            self._taken = self._taken[:0].copy()
        if len(self.sets) == 1:
            self.sets[0].take(flat, axis=0, out=found, mode="clip")  # "raise" would copy twice
        else:
            owner = np.searchsorted(self.starts, flat, side="right") - 1
            for part in np.unique(owner).tolist():
                mine = np.flatnonzero(owner == part)
                found[mine] = self.sets[part].take(flat[mine] - self.starts[part], axis=0)
        return found.reshape(*positions.shape, *shape)

    def _split(self, cuts: Sequence[int]) -> Iterator[tuple[Codes, int, int, int]]:
        """Parts that some of the ascending positions fall into, and which of them."""
        for part, start, first, last in zip(
            self.parts, self.starts.tolist(), cuts[:-1], cuts[1:], strict=False
        ):
            if first < last:
                yield part, start, first, last

    def survivors(
        self, queries: Sequence[Query], k: int, allowed: Bool[Tensor, " items"] | None = None
    ) -> Iterator[Positions]:
        """For each query the positions of all items that can be among its k best."""
        at_once = max(1, WORKSPACE // (4 * max(1, len(self))))
        for start in range(0, len(queries), at_once):
            yield from self._survivors(queries[start : start + at_once], k, allowed)
        if self._space.nbytes > max(KEPT, 4 * 4 * len(self)):
            self._space = torch.empty(0)

    def _survivors(
        self, queries: Sequence[Query], k: int, allowed: Bool[Tensor, " items"] | None
    ) -> Iterator[Positions]:
        batch = Batch(queries, self.alpha)
        chosen = self._pass(batch, k, allowed, self._bounds)
        if self._bounds is mean_bounds:
            left = sum(map(len, chosen)) / (len(batch) * max(1, len(self)))
            if left > MOSTLY and len(self) > PORTION:
                chosen = self._pass(batch, k, allowed, element_bounds)
                if k <= SMALL:
                    self._bounds = element_bounds  # diverse sets: means will tell too little later
        for query, positions in zip(queries, chosen, strict=True):
            yield self.narrow(query, positions, k)

    def _pass(
        self, batch: Batch, k: int, allowed: Bool[Tensor, " items"] | None, bound: Bound
    ) -> list[Positions]:
        """Bound everything; keep what reaches a threshold known from the most promising items."""
        bounds = self._workspace(len(batch))
        for part, start in zip(self.parts, self.starts[:-1].tolist(), strict=True):
            bound(batch, part, bounds[:, start : start + len(part)])
        if len(self.removed):
            bounds[:, self.removed] = NOTHING
        if allowed is not None:
            bounds[:, : len(self)].masked_fill_(~allowed, NOTHING)
        peaks = bounds.view(len(batch), -1, CHUNK).amax(dim=2)
        chunks = bounds.view(-1, CHUNK)  # of all queries, one after the other
        least = self._thresholds(batch, peaks, chunks, k)
        owner, chunk = (peaks >= least[:, None]).nonzero().unbind(dim=1)
        inside = chunks.index_select(0, owner * peaks.shape[1] + chunk) >= least[owner, None]
        which, place = inside.nonzero().unbind(dim=1)
        positions = chunk[which] * CHUNK + place
        counts = owner[which].bincount(minlength=len(batch)).tolist()
        return list(torch.split(positions, counts))

    def _thresholds(
        self, batch: Batch, peaks: Tensor, chunks: Tensor, k: int
    ) -> Float[Tensor, " queries"]:
        """What k items of each query are known to reach: the best of the most promising chunks."""
        highest, best = peaks.topk(min(peaks.shape[1], SEEDS * k), dim=1)
        flat = (best + peaks.shape[1] * torch.arange(len(batch))[:, None]).flatten()
        seeds = best * CHUNK + chunks.index_select(0, flat).argmax(dim=1).view_as(best)
        lowest = float(np.nextafter(np.float32(NOTHING), np.float32(0)))
        if seeds.shape[1] < k or not len(self):
            return torch.full((len(batch),), lowest)
        exact = torch.stack([query.exact for query in batch.queries]).numpy()
        sets = self.sets_at(seeds.clamp_(max=len(self) - 1).numpy())
        scores = scores_of(exact, sets, self.alpha)
        scores[highest.numpy() <= NOTHING] = NOTHING
        scores.partition(-k, axis=1)
        least = scores[:, -k] - slack(batch.dim, self.alpha)
        return torch.from_numpy(least.clip(min=lowest).astype(np.float32))

    def narrow(self, query: Query, positions: Positions, k: int) -> Positions:
        """Those of some (ascending) positions that can be among the k best of them."""
        for fine in (False, True):
            if len(positions) > FEW:
                low, high = self._interval(query, positions, fine)
                positions = positions[high >= _threshold(low, k)]
        return positions

    def _interval(
        self, query: Query, positions: Positions, fine: bool
    ) -> tuple[Float[Tensor, " chosen"], Float[Tensor, " chosen"]]:
        """Between which numbers the exact scores lie."""
        scores, margins = [torch.empty(0)], [torch.empty(0)]
        cuts = torch.searchsorted(positions, torch.from_numpy(self.starts)).tolist()
        for part, start, first, last in self._split(cuts):
            for inner in range(first, last, PORTION):
                local = positions[inner : min(inner + PORTION, last)] - start
                score, margin = estimates(query, part, local, self.alpha, fine)
                scores.append(score)
                margins.append(margin)
        score, margin = torch.cat(scores), torch.cat(margins)
        return score - margin, score + margin

    def _workspace(self, queries: int) -> Float[Tensor, "queries padded"]:
        """Room for all bounds; pages are kept for few queries, since new ones cost as much as
        filling them."""
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


def padded(each: Iterable[Positions]) -> Candidates:
    """Positions found for each query side by side, with -1 where there are fewer."""
    found = list(each)
    both = np.full((len(found), max(map(len, found), default=0)), -1, dtype=np.int64)
    for line, positions in zip(both, found, strict=True):
        line[: len(positions)] = positions.numpy()
    return both
