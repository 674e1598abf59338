"""All codes of one state of an index, and the candidates for exact search.

Searches run in the compiled kernel, or in torch and numpy where it was not built.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from jaxtyping import Bool, Int64

from diverset.index.compiled import CompiledSearch, load_kernel
from diverset.index.gathering import SetGatherer
from diverset.index.quantized_codes import Codes
from diverset.index.scoring import Candidates, Found
from diverset.index.set_store import Sets
from diverset.index.torch_search import TorchSearch

Positions = Int64[np.ndarray, " positions"]


class Scan:
    """Codes of all items at one state, and which of them are removed."""

    def __init__(
        self, parts: Sequence[Codes], removed: Int64[np.ndarray, " removed"], alpha: float
    ) -> None:
        self.parts, self.alpha = [part for part in parts if len(part)], alpha
        rows = [part.rows.numpy() for part in self.parts]
        self.rows = rows[0] if len(rows) == 1 else np.concatenate([np.empty(0, np.int64), *rows])
        self.gather_sets = SetGatherer(self.parts)
        self.removed = self.positions(removed)
        self._allowed = self._mask(np.arange(len(self))) if len(self.removed) else None
        if self.parts:
            self._torch = TorchSearch(self.parts, alpha, self.gather_sets)
            kernel = load_kernel()
            self._kernel = None if kernel is None else CompiledSearch(kernel, self.parts, alpha)

    def __len__(self) -> int:
        return len(self.rows)

    @property
    def buffer_bytes(self) -> int:
        """Memory kept between calls."""
        return self.gather_sets.buffer_bytes + (self._torch.buffer_bytes if self.parts else 0)

    def positions(self, rows: Int64[np.ndarray, " rows"]) -> Int64[np.ndarray, " positions"]:
        """Positions of row numbers, ascending; unknown rows are skipped."""
        positions = np.searchsorted(self.rows, rows)
        positions = positions[positions < len(self.rows)] if len(self.rows) else positions[:0]
        return np.unique(positions[np.isin(self.rows[positions], rows)])

    def current(self) -> Int64[np.ndarray, " items"]:
        """Positions of the items that are not removed."""
        return np.setdiff1d(np.arange(len(self)), self.removed)

    def search(self, queries: Sets, k: int, among: Positions | None = None) -> Found:
        """The k best items of each query, provably; `among` restricts the items."""
        if not self.parts or not len(queries):
            return self._nothing(queries)
        allowed = self._allowed if among is None else self._mask(among)
        backend = self._kernel or self._torch
        return backend.search(queries, min(k, len(self)), allowed)

    def rank(self, queries: Sets, candidates: Candidates, k: int) -> Found:
        """The k best of each query's candidates."""
        if not self.parts or not candidates.size:
            return self._nothing(queries)
        backend = self._kernel or self._torch
        return backend.rank(queries, candidates, min(k, candidates.shape[1]))

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
