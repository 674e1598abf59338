"""All codes of one state of an index, and the candidates for exact search.

Searches run in the compiled kernel, or in torch and numpy where it was not built.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from jaxtyping import Bool, Float, Int64

from diverset.index.compiled import CompiledSearch, load_kernel
from diverset.index.quantized_codes import Codes
from diverset.index.scoring import Candidates, Found
from diverset.index.set_store import Sets
from diverset.index.torch_search import TorchSearch

Positions = Int64[np.ndarray, " positions"]
SETS_BUFFER = 2 * 2**20  # bytes of gathered sets kept between calls


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
        self.removed = self.positions(removed)
        self._allowed = self._mask(np.arange(len(self))) if len(self.removed) else None
        self._sets_buffer = np.empty((0, 0, 0), dtype=np.float32)
        if self.parts:
            kernel = load_kernel()
            self._search: CompiledSearch | TorchSearch
            if kernel is None:
                self._search = TorchSearch(self.parts, alpha, self.gather_sets)
            else:
                self._search = CompiledSearch(kernel, self.parts, alpha)

    def __len__(self) -> int:
        return len(self.rows)

    @property
    def buffer_bytes(self) -> int:
        """Memory kept between calls."""
        return self._sets_buffer.nbytes + (self._search.buffer_bytes if self.parts else 0)

    def positions(self, rows: Int64[np.ndarray, " rows"]) -> Int64[np.ndarray, " positions"]:
        """Positions of row numbers, ascending; unknown rows are skipped."""
        positions = np.searchsorted(self.rows, rows)
        positions = positions[positions < len(self.rows)] if len(self.rows) else positions[:0]
        return np.unique(positions[np.isin(self.rows[positions], rows)])

    def current(self) -> Int64[np.ndarray, " items"]:
        """Positions of the items that are not removed."""
        return np.setdiff1d(np.arange(len(self)), self.removed)

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

    def search(self, queries: Sets, k: int, among: Positions | None = None) -> Found:
        """The k best items of each query, provably; `among` restricts the items."""
        if not self.parts or not len(queries):
            return self._nothing(queries)
        allowed = self._allowed if among is None else self._mask(among)
        return self._search.search(queries, min(k, len(self)), allowed)

    def rank(self, queries: Sets, candidates: Candidates, k: int) -> Found:
        """The k best of each query's candidates, by float32 products."""
        if not self.parts or not candidates.size:
            return self._nothing(queries)
        return self._search.rank(queries, candidates, min(k, candidates.shape[1]))

    def _nothing(self, queries: Sets) -> Found:
        count, elements, _ = queries.shape
        none = np.zeros((count, 0))
        counts, pairs = np.zeros(count, dtype=np.int64), np.zeros((count, 0, elements, 1))
        return Found(counts, none.astype(np.int64), none, pairs)

    def _mask(self, positions: Positions) -> Bool[np.ndarray, " items"]:
        """Which items are at these positions and not removed."""
        mask = np.zeros(len(self), dtype=bool)
        mask[positions] = True
        mask[self.removed] = False
        return mask
