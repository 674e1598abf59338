"""Exact search with torch, for machines on which the kernel was not built.

For each query, `TorchSearch` bounds every score from above, takes a threshold from the exact scores
of the most promising items, and drops all items whose bound is below it. The rest is pruned in the
same way with tighter bounds.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import numpy as np
import torch
from jaxtyping import Bool, Float, Int64
from torch import Tensor

from diverset.index.bounds import QueryBatch, element_bounds, estimates, mean_bounds
from diverset.index.quantized_codes import (
    Codes,
    QuantizedQueries,
    quantize_queries,
    rounding_margin,
)
from diverset.index.scoring import (
    Candidates,
    Found,
    GatherFunction,
    float32_scores,
    rank_candidates,
)
from diverset.index.set_store import Sets

BoundFunction = Callable[[QueryBatch, Codes, Tensor], None]
Positions = Int64[Tensor, " positions"]
WORKSPACE = 64 * 2**20  # bytes for bounds; limits the number of queries per pass
CHUNK = 64  # bounds that are compared by their maximum first
SEEDS = 4  # SEEDS * k items are scored exactly for the first threshold
SCORED_DIRECTLY = 128  # up to this many items are scored without being pruned by their codes
PRUNE_BATCH = 4096  # items that are pruned at once
MAX_SHARE = 0.2  # if bounds by means leave a larger share of items, elements are used instead
SMALL_K = 100  # a larger k leaves many items whatever the sets are like
BOUNDS_BUFFER = 2**20  # bytes of bounds kept between calls, or those of four queries if more
EXCLUDED = torch.finfo(torch.float32).min  # the bound of removed items and padding
LOWEST = float(np.nextafter(np.float32(EXCLUDED), np.float32(0)))  # the lowest threshold


class TorchSearch:
    """The codes of a collection.

    Args:
        gather_sets: returns the original sets at some positions.
    """

    def __init__(self, parts: Sequence[Codes], alpha: float, gather_sets: GatherFunction) -> None:
        self.parts, self.alpha, self._gather_sets = parts, alpha, gather_sets
        self.starts = np.cumsum([0, *map(len, parts)])
        self._bound: BoundFunction = mean_bounds
        self._bounds_buffer = torch.empty(0)

    def __len__(self) -> int:
        return int(self.starts[-1])

    @property
    def buffer_bytes(self) -> int:
        """Memory kept between calls."""
        return self._bounds_buffer.nbytes

    def search(self, queries: Sets, k: int, allowed: Bool[np.ndarray, " items"] | None) -> Found:
        """The k best items of each query; `allowed` says which may be found."""
        candidates = pad(self._candidates(quantize_queries(queries), k, allowed))
        return rank_candidates(queries, candidates, self._gather_sets, k, self.alpha, exact=True)

    def rank(self, queries: Sets, candidates: Candidates, k: int) -> Found:
        """The k best of each query's candidates, by float32 products."""
        return rank_candidates(queries, candidates, self._gather_sets, k, self.alpha, exact=False)

    def _candidates(
        self, queries: QuantizedQueries, k: int, allowed: Bool[np.ndarray, " items"] | None
    ) -> list[Int64[np.ndarray, " candidates"]]:
        """For each query, positions of items among which are its k best."""
        if allowed is not None:
            positions = torch.from_numpy(np.flatnonzero(allowed))
            if len(positions) <= max(PRUNE_BATCH, len(self) // 20):  # cheaper than bounding all
                rows = (queries[n : n + 1] for n in range(len(queries)))
                return [self._prune(query, positions, k).numpy() for query in rows]
        mask = None if allowed is None else torch.from_numpy(allowed)
        return [positions.numpy() for positions in self._survivors(queries, k, mask)]

    def _survivors(
        self, queries: QuantizedQueries, k: int, allowed: Bool[Tensor, " items"] | None
    ) -> Iterator[Positions]:
        size = max(1, WORKSPACE // (4 * max(1, len(self))))
        for start in range(0, len(queries), size):
            yield from self._batch_survivors(queries[start : start + size], k, allowed)
        if self._bounds_buffer.nbytes > max(BOUNDS_BUFFER, 4 * 4 * len(self)):
            self._bounds_buffer = torch.empty(0)

    def _batch_survivors(
        self, queries: QuantizedQueries, k: int, allowed: Bool[Tensor, " items"] | None
    ) -> Iterator[Positions]:
        batch = QueryBatch(queries, self.alpha)
        results = self._bound_all(batch, k, allowed, self._bound)
        if self._bound is mean_bounds:
            share = sum(map(len, results)) / (len(batch) * max(1, len(self)))
            if share > MAX_SHARE and len(self) > PRUNE_BATCH:
                results = self._bound_all(batch, k, allowed, element_bounds)
                if k <= SMALL_K:
                    self._bound = element_bounds  # diverse sets: means will not prune later either
        for n, positions in enumerate(results):
            yield self._prune(queries[n : n + 1], positions, k)

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
        sets = self._gather_sets(seeds.clamp_(max=len(self) - 1).numpy())
        scores = float32_scores(batch.queries.exact, sets, self.alpha)
        scores[highest.numpy() <= EXCLUDED] = EXCLUDED
        scores.partition(-k, axis=1)
        thresholds = scores[:, -k] - rounding_margin(batch.dim, self.alpha)
        return torch.from_numpy(thresholds.clip(min=LOWEST).astype(np.float32))

    def _prune(self, query: QuantizedQueries, positions: Positions, k: int) -> Positions:
        """The subset of these positions, ascending, that can be among the k best of them.

        First by bounds with the quantized query, then by tighter ones with the exact query.
        """
        for exact_query in (False, True):
            if len(positions) > SCORED_DIRECTLY:
                low, high = self._score_interval(query, positions, exact_query)
                positions = positions[high >= _kth_largest(low, k)]
        return positions

    def _score_interval(
        self, query: QuantizedQueries, positions: Positions, exact_query: bool
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


def pad(rows: Sequence[Int64[np.ndarray, " candidates"]]) -> Candidates:
    """Positions of each query as one array, padded with -1."""
    padded = np.full((len(rows), max(map(len, rows), default=0)), -1, dtype=np.int64)
    for row, positions in zip(padded, rows, strict=True):
        row[: len(positions)] = positions
    return padded
