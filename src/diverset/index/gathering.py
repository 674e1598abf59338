"""The original sets at positions of a collection whose codes are in several parts."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from jaxtyping import Float, Int64

from diverset.index.quantized_codes import Codes

SETS_BUFFER = 2 * 2**20  # bytes of gathered sets kept between calls


class SetGatherer:
    """Copies sets out of mapped files; their checksums are compared on first use.

    It refers to the parts and to nothing else, so that files are unmapped as soon as a scan is
    dropped, without waiting for the garbage collector: some systems do not delete mapped files.
    """

    def __init__(self, parts: Sequence[Codes]) -> None:
        self._parts, self._sets = parts, [part.sets.numpy() for part in parts]
        self._starts = np.cumsum([0, *(len(part) for part in parts)])
        self._buffer = np.empty((0, 0, 0), dtype=np.float32)

    @property
    def buffer_bytes(self) -> int:
        """Memory kept between calls."""
        return self._buffer.nbytes

    def __call__(
        self, positions: Int64[np.ndarray, "*shape"]
    ) -> Float[np.ndarray, "*shape elements dim"]:
        """The sets at one or more positions; the next call overwrites the result."""
        flat, shape = positions.ravel(), self._sets[0].shape[1:]
        if len(self._buffer) < len(flat):  # kept: new pages cost more than copying
            self._buffer = np.empty((len(flat), *shape), dtype=np.float32)
        out = self._buffer[: len(flat)]
        if out.nbytes > SETS_BUFFER:  # a large buffer is freed with the result
            self._buffer = self._buffer[:0].copy()
        if len(self._sets) == 1:
            self._parts[0].check_sets(flat)
            self._sets[0].take(flat, axis=0, out=out, mode="clip")  # "raise" would copy twice
        else:
            part_index = np.searchsorted(self._starts, flat, side="right") - 1
            for part in np.unique(part_index).tolist():
                inside = np.flatnonzero(part_index == part)
                local = flat[inside] - self._starts[part]
                self._parts[part].check_sets(local)
                out[inside] = self._sets[part].take(local, axis=0)
        return out.reshape(*positions.shape, *shape)
