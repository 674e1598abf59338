"""Finds the few items that can be among the k best, by upper bounds over all items.

For each query, `Scan` bounds every score from above, takes a threshold from the exact scores of the
most promising items, and drops all items whose bound is below it. The rest is pruned in the same
way with tighter bounds. The true k best are always among the `survivors`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence

import numpy as np
import torch
from jaxtyping import Bool, Float, Int64
from torch import Tensor

from diverset.index.bounds import QueryBatch, element_bounds, estimates, mean_bounds
from diverset.index.quantized_codes import Codes, QuantizedQuery, rounding_margin
from diverset.index.scoring import float32_scores

BoundFunction = Callable[[QueryBatch, Codes, Tensor], None]
Positions = Int64[Tensor, " positions"]
Candidates = Int64[np.ndarray, "queries candidates"]
"""Positions for each query; -1 is no candidate."""
WORKSPACE = 64 * 2**20  # bytes for bounds; limits the number of queries per pass
CHUNK = 64  # bounds that are compared by their maximum first
SEEDS = 4  # SEEDS * k items are scored exactly for the first threshold
SCORED_DIRECTLY = 128  # up to this many items are scored without being pruned by their codes
PRUNE_BATCH = 4096  # items that are pruned at once
MAX_SHARE = 0.2  # if bounds by means leave a larger share of items, elements are used instead
SMALL_K = 100  # a larger k leaves many items whatever the sets are like
BOUNDS_BUFFER = 2**20  # bytes of bounds kept between calls, or those of four queries if more
SETS_BUFFER = 2 * 2**20  # bytes of gathered sets kept between calls
EXCLUDED = torch.finfo(torch.float32).min  # the bound of removed items and padding
LOWEST = float(np.nextafter(np.float32(EXCLUDED), np.float32(0)))  # the lowest threshold


class Scan:
    """Codes of all items at one state, and which of them are removed."""

    def __init__(
        self, parts: Sequence[Codes], removed: Int64[np.ndarray, " removed"], alpha: float
    ) -> None:
        self.parts, self.alpha = [part for part in parts if len(part)], alpha
        empty = np.empty(0, dtype=np.int64)
        self.rows = np.concatenate([empty, *(part.rows.numpy() for part in self.parts)])
        self.sets = [part.sets.numpy() for part in self.parts]
        self.starts = np.cumsum([0, *(len(part) for part in self.parts)])
        self.removed = torch.from_numpy(self.positions(removed))
        self._bound: BoundFunction = mean_bounds
        self._bounds_buffer = torch.empty(0)
        self._sets_buffer = np.empty((0, 0, 0), dtype=np.float32)

    def __len__(self) -> int:
        return len(self.rows)

    @property
    def buffer_bytes(self) -> int:
        """Memory kept between calls."""
        return self._bounds_buffer.nbytes + self._sets_buffer.nbytes

    def positions(self, rows: Int64[np.ndarray, " rows"]) -> Int64[np.ndarray, " positions"]:
        """Positions of row numbers, ascending; unknown rows are skipped."""
        positions = np.searchsorted(self.rows, rows)
        positions = positions[positions < len(self.rows)] if len(self.rows) else positions[:0]
        return np.unique(positions[np.isin(self.rows[positions], rows)])

    def current(self) -> Int64[np.ndarray, " items"]:
        """Positions of the items that are not removed."""
        return np.setdiff1d(np.arange(len(self)), self.removed.numpy())

    def gather_sets(
        self, positions: Int64[np.ndarray, "*shape"]
    ) -> Float[np.ndarray, "*shape elements dim"]:
        """The original sets at one or more positions; the next call overwrites the result."""
        flat, shape = positions.ravel(), self.sets[0].shape[1:]
        if len(self._sets_buffer) < len(flat):  # kept: new pages cost more than copying
            self._sets_buffer = np.empty((len(flat), *shape), dtype=np.float32)
        out = self._sets_buffer[: len(flat)]
        if out.nbytes > SETS_BUFFER:  # a large buffer is freed with the result
            self._sets_buffer = self._sets_buffer[:0].copy()
        if len(self.sets) == 1:
            self.parts[0].check_sets(flat)
            self.sets[0].take(flat, axis=0, out=out, mode="clip")  # "raise" would copy twice
        else:
            part_index = np.searchsorted(self.starts, flat, side="right") - 1
            for part in np.unique(part_index).tolist():
                inside = np.flatnonzero(part_index == part)
                local = flat[inside] - self.starts[part]
                self.parts[part].check_sets(local)
                out[inside] = self.sets[part].take(local, axis=0)
        return out.reshape(*positions.shape, *shape)

    def survivors(
        self,
        queries: Sequence[QuantizedQuery],
        k: int,
        allowed: Bool[Tensor, " items"] | None = None,
    ) -> Iterator[Positions]:
        """For each query, the positions of all items that can be among its k best."""
        size = max(1, WORKSPACE // (4 * max(1, len(self))))
        for start in range(0, len(queries), size):
            yield from self._survivors(queries[start : start + size], k, allowed)
        if self._bounds_buffer.nbytes > max(BOUNDS_BUFFER, 4 * 4 * len(self)):
            self._bounds_buffer = torch.empty(0)

    def _survivors(
        self, queries: Sequence[QuantizedQuery], k: int, allowed: Bool[Tensor, " items"] | None
    ) -> Iterator[Positions]:
        batch = QueryBatch(queries, self.alpha)
        results = self._bound_all(batch, k, allowed, self._bound)
        if self._bound is mean_bounds:
            share = sum(map(len, results)) / (len(batch) * max(1, len(self)))
            if share > MAX_SHARE and len(self) > PRUNE_BATCH:
                results = self._bound_all(batch, k, allowed, element_bounds)
                if k <= SMALL_K:
                    self._bound = element_bounds  # diverse sets: means will not prune later either
        for query, positions in zip(queries, results, strict=True):
            yield self.prune(query, positions, k)

    def _bound_all(
        self,
        batch: QueryBatch,
        k: int,
        allowed: Bool[Tensor, " items"] | None,
        bound: BoundFunction,
    ) -> list[Positions]:
        """Bound all items; the positions of those that reach the threshold of each query."""
        bounds = self._allocate_bounds(len(batch))
        for part, start in zip(self.parts, self.starts[:-1].tolist(), strict=True):
            bound(batch, part, bounds[:, start : start + len(part)])
        if len(self.removed):
            bounds[:, self.removed] = EXCLUDED
        if allowed is not None:
            bounds[:, : len(self)].masked_fill_(~allowed, EXCLUDED)
        peaks = bounds.view(len(batch), -1, CHUNK).amax(dim=2)
        chunks = bounds.view(-1, CHUNK)  # of all queries, one after the other
        thresholds = self._thresholds(batch, peaks, chunks, k)
        query, chunk = (peaks >= thresholds[:, None]).nonzero().unbind(dim=1)
        values = chunks.index_select(0, query * peaks.shape[1] + chunk)
        selected, offset = (values >= thresholds[query, None]).nonzero().unbind(dim=1)
        positions = chunk[selected] * CHUNK + offset
        counts = query[selected].bincount(minlength=len(batch)).tolist()
        return list(torch.split(positions, counts))

    def _thresholds(
        self, batch: QueryBatch, peaks: Tensor, chunks: Tensor, k: int
    ) -> Float[Tensor, " queries"]:
        """A score that k items of each query reach, from the best items of the best chunks."""
        highest, best = peaks.topk(min(peaks.shape[1], SEEDS * k), dim=1)
        flat = (best + peaks.shape[1] * torch.arange(len(batch))[:, None]).flatten()
        seeds = best * CHUNK + chunks.index_select(0, flat).argmax(dim=1).view_as(best)
        if seeds.shape[1] < k or not len(self):
            return torch.full((len(batch),), LOWEST)
        exact = torch.stack([query.exact for query in batch.queries]).numpy()
        sets = self.gather_sets(seeds.clamp_(max=len(self) - 1).numpy())
        scores = float32_scores(exact, sets, self.alpha)
        scores[highest.numpy() <= EXCLUDED] = EXCLUDED
        scores.partition(-k, axis=1)
        thresholds = scores[:, -k] - rounding_margin(batch.dim, self.alpha)
        return torch.from_numpy(thresholds.clip(min=LOWEST).astype(np.float32))

    def prune(self, query: QuantizedQuery, positions: Positions, k: int) -> Positions:
        """The subset of these positions, ascending, that can be among the k best of them.

        First by bounds with the quantized query, then by tighter ones with the exact query.
        """
        for exact_query in (False, True):
            if len(positions) > SCORED_DIRECTLY:
                low, high = self._score_interval(query, positions, exact_query)
                positions = positions[high >= _kth_largest(low, k)]
        return positions

    def _score_interval(
        self, query: QuantizedQuery, positions: Positions, exact_query: bool
    ) -> tuple[Float[Tensor, " positions"], Float[Tensor, " positions"]]:
        """Lower and upper bounds of the exact scores."""
        scores, margins = [torch.empty(0)], [torch.empty(0)]
        starts = self.starts.tolist()
        cuts = torch.searchsorted(positions, torch.from_numpy(self.starts)).tolist()
        for index, part in enumerate(self.parts):
            for first in range(cuts[index], cuts[index + 1], PRUNE_BATCH):
                last = min(first + PRUNE_BATCH, cuts[index + 1])
                local = positions[first:last] - starts[index]
                score, margin = estimates(query, part, local, self.alpha, exact_query)
                scores.append(score)
                margins.append(margin)
        score, margin = torch.cat(scores), torch.cat(margins)
        return score - margin, score + margin

    def _allocate_bounds(self, queries: int) -> Float[Tensor, "queries padded"]:
        """A buffer for all bounds; kept for few queries, since new pages cost as much as filling
        them."""
        padded = -(-max(1, len(self)) // CHUNK) * CHUNK
        if len(self._bounds_buffer) < queries * padded:
            self._bounds_buffer = torch.empty(queries * padded)
        bounds = self._bounds_buffer[: queries * padded].view(queries, padded)
        bounds[:, len(self) :] = EXCLUDED
        return bounds


def _kth_largest(scores: Float[Tensor, " items"], k: int) -> float:
    """A score that k items reach; above `EXCLUDED`."""
    return LOWEST if len(scores) < k else max(LOWEST, float(scores.topk(k).values[-1]))


def pad(results: Iterable[Positions]) -> Candidates:
    """Positions of each query as one array, padded with -1."""
    rows = list(results)
    padded = np.full((len(rows), max(map(len, rows), default=0)), -1, dtype=np.int64)
    for row, positions in zip(padded, rows, strict=True):
        row[: len(positions)] = positions.numpy()
    return padded
