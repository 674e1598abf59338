"""Search by the compiled kernel (kernel/), if it was built for this machine.

The kernel is plain C called through ctypes, which releases the GIL. Without it, `torch_search` does
the same.
"""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from ctypes import POINTER, Structure, byref, c_float, c_int64, c_void_p
from pathlib import Path

import numpy as np
import torch
from jaxtyping import Bool, Int64

from diverset.index.block_checks import ELEMENT_BLOCK
from diverset.index.quantized_codes import Codes, max_code_norm, rounding_margin
from diverset.index.scoring import Candidates, Found
from diverset.index.set_store import Sets
from diverset.runtime.compiled import load_kernel as load_library
from diverset.runtime.threads import free_threads

FOLDER = Path(__file__).parent / "kernel"
INTERFACE = 2  # of the structures below; the kernel has a symbol of this name
TENSORS_READ = ("means", "elements", "mean_scale", "spread", "radius", "scale", "error", "sets")
ITEMS_PER_THREAD = 4096  # pairs of a query and an item; starting a thread costs about as many
CANDIDATES_PER_THREAD = 128  # the same for candidates that are scored from their sets
WORKSPACE = 64 * 2**20  # bytes for results; limits the number of queries per call


class _Part(Structure):
    _fields_ = [
        ("first", c_int64),
        ("items", c_int64),
        ("means", c_void_p),
        ("elements", c_void_p),
        ("mean_scale", c_void_p),
        ("spread", c_void_p),
        ("radius", c_void_p),
        ("scale", c_void_p),
        ("error", c_void_p),
        ("sets", c_void_p),
        ("checked_sets", c_void_p),
        ("checked_blocks", c_void_p),
        ("used_blocks", c_void_p),
    ]


class _Collection(Structure):
    _fields_ = [
        ("parts", c_int64),
        ("elements", c_int64),
        ("dim", c_int64),
        ("block", c_int64),
        ("alpha", c_float),
        ("rounding", c_float),
        ("code_norm", c_float),
        ("part", POINTER(_Part)),
        ("allowed", c_void_p),
    ]


class _Queries(Structure):
    _fields_ = [("count", c_int64), ("elements", c_int64), ("sets", c_void_p)]


class _Found(Structure):
    _fields_ = [
        ("counts", c_void_p),
        ("positions", c_void_p),
        ("scores", c_void_p),
        ("cosines", c_void_p),
    ]


def load_kernel() -> ctypes.CDLL | None:
    """The kernel for this processor; None if it was not built, or from other sources than these.

    The latter only happens in a clone whose sources were updated: run `make kernel`.
    """
    kernel = load_library(FOLDER)
    if kernel is None or not hasattr(kernel, f"diverset_interface_{INTERFACE}"):
        return None
    kernel.diverset_free.argtypes = [c_void_p]
    return kernel


class CompiledSearch:
    """The codes of a collection, prepared for the kernel."""

    def __init__(self, kernel: ctypes.CDLL, parts: Sequence[Codes], alpha: float) -> None:
        self._kernel, self._parts, self._alpha = kernel, parts, alpha
        self._starts = np.cumsum([0, *map(len, parts)])
        self._used_blocks = [np.zeros(-(-len(part) // ELEMENT_BLOCK), bool) for part in parts]
        self._checked = False  # whether the checksums of all codes have been compared
        structures = (_Part * len(parts))()
        for index, part in enumerate(parts):
            self._describe(structures[index], part, index)
        elements, _, dim = parts[0].elements.shape
        rounding, norm = rounding_margin(dim, alpha), max_code_norm(dim) * (1 + 2.0**-20)
        self._collection = _Collection(
            len(parts), elements, dim, ELEMENT_BLOCK, alpha, rounding, norm, structures, None
        )

    def _describe(self, structure: _Part, part: Codes, index: int) -> None:
        structure.first, structure.items = self._starts[index], len(part)
        for name in TENSORS_READ:
            tensor = getattr(part, name)
            if not tensor.is_contiguous():
                raise ValueError(f"{name} is not contiguous; the kernel needs plain arrays")
            setattr(structure, name, tensor.data_ptr())
        if part.checks is not None:
            structure.checked_sets = part.checks.checked_sets.ctypes.data
            structure.checked_blocks = part.checks.checked_blocks.ctypes.data
            structure.used_blocks = self._used_blocks[index].ctypes.data

    def search(self, queries: Sets, k: int, allowed: Bool[np.ndarray, " items"] | None) -> Found:
        """The k best items of each query; `allowed` says which may be found."""
        self._collection.allowed = None if allowed is None else allowed.ctypes.data
        threads = free_threads(int(self._starts[-1]) * len(queries) // ITEMS_PER_THREAD)
        return self._in_batches(queries, k, threads, None)

    def rank(self, queries: Sets, candidates: Candidates, k: int) -> Found:
        """The k best of each query's candidates."""
        threads = free_threads(candidates.size // CANDIDATES_PER_THREAD)
        return self._in_batches(queries, k, threads, candidates)

    def _in_batches(
        self, queries: Sets, k: int, threads: int, candidates: Candidates | None
    ) -> Found:
        pairs = queries.shape[1] * self._collection.elements
        size = max(1, WORKSPACE // (k * (8 * pairs + 16 + 4 * threads)))
        parts = []
        for start in range(0, len(queries), size):
            batch = slice(start, start + size)
            rows = None if candidates is None else np.ascontiguousarray(candidates[batch])
            parts.append(self._call(queries[batch], k, threads, rows))
        return (
            parts[0] if len(parts) == 1 else Found(*map(np.concatenate, zip(*parts, strict=True)))
        )

    def _call(self, queries: Sets, k: int, threads: int, candidates: Candidates | None) -> Found:
        count, elements, _ = queries.shape
        found = Found(
            np.zeros(count, dtype=np.int64),
            np.empty((count, k), dtype=np.int64),
            np.empty((count, k)),
            np.empty((count, k, elements, self._collection.elements)),
        )
        queries = np.ascontiguousarray(queries)
        width = 0 if candidates is None else candidates.shape[1]
        unchecked, unchecked_count = POINTER(c_int64)(), c_int64()
        done = self._kernel.diverset_search(
            byref(self._collection),
            byref(_Queries(count, elements, _address(queries))),
            c_int64(k),
            c_int64(threads),
            None if candidates is None else c_void_p(_address(candidates)),
            c_int64(width),
            byref(_Found(*map(_address, found))),
            byref(unchecked),
            byref(unchecked_count),
        )
        try:
            if not done:
                raise MemoryError(f"not enough memory to search {count} queries for {k} hits each")
            if unchecked_count.value:
                positions = np.empty(unchecked_count.value, dtype=np.int64)
                ctypes.memmove(_address(positions), unchecked, positions.nbytes)
                self._check_sets(positions)
        finally:
            self._kernel.diverset_free(unchecked)
        if not self._checked:
            self._check_blocks()
        return found

    def _check_sets(self, positions: Int64[np.ndarray, " positions"]) -> None:
        """Compare the checksums of sets that the kernel has read; raises if one is damaged."""
        part_index = np.searchsorted(self._starts, positions, side="right") - 1
        for index in np.unique(part_index).tolist():
            local = positions[part_index == index] - self._starts[index]
            self._parts[index].check_sets(np.unique(local))

    def _check_blocks(self) -> None:
        """The same for blocks of element codes."""
        for part, used in zip(self._parts, self._used_blocks, strict=True):
            if used.any():
                blocks = torch.from_numpy(np.flatnonzero(used))
                used[:] = False
                part.check_elements(blocks * ELEMENT_BLOCK)
        checks = [part.checks for part in self._parts if part.checks is not None]
        self._checked = all(check.checked_blocks.all() for check in checks)


def _address(array: np.ndarray) -> int:
    return array.ctypes.data
