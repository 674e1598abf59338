"""Checksums of the large parts of a segment: every block is checked once, when it is first used.

A set is a block of its own, with the same checksum as in the item database. The codes of elements
are read in long runs, so `ELEMENT_BLOCK` items share a checksum. Everything else in a segment is
read by every search and is checked when the segment is opened.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import torch
from jaxtyping import Bool, Float, Int8, Int64
from torch import Tensor

from diverset.errors import DamagedError
from diverset.index.schema import set_checksum
from diverset.runtime.checksums import checksum

ELEMENT_BLOCK = 1024  # items


class DamagedSegmentError(DamagedError):
    """A segment file that fails a checksum; its items are in the item database."""

    def __init__(self, file: Path) -> None:
        super().__init__(f"{file} is damaged; the next search rebuilds it from the item database")
        self.file = file.name


class BlockChecks:
    """Which blocks of an opened segment have been checked."""

    def __init__(self, file: Path, sets: Int64[Tensor, " items"], elements: Int64[Tensor, " b"]):
        self._file = file
        self._sets, self._elements = sets.numpy(), elements.numpy()
        self.checked_sets: Bool[np.ndarray, " items"] = np.zeros(len(sets), dtype=bool)
        self.checked_blocks: Bool[np.ndarray, " blocks"] = np.zeros(len(elements), dtype=bool)

    def check_sets(
        self,
        rows: Int64[Tensor, " items"],
        sets: Float[Tensor, "items elements dim"],
        positions: Int64[np.ndarray, " positions"],
    ) -> None:
        """Raise if the set at one of these positions is damaged."""
        new = positions[~self.checked_sets[positions]]
        if len(new):
            found = set_checksums(rows.numpy()[new], sets.numpy(), new)
            if (found != self._sets[new]).any():
                raise DamagedSegmentError(self._file)
            self.checked_sets[new] = True

    def check_elements(
        self,
        elements: Int8[Tensor, "elements items dim"],
        positions: Int64[Tensor, " positions"] | None = None,
    ) -> None:
        """Raise if codes of elements are damaged; default: at any position."""
        if self.checked_blocks.all():
            return
        count = len(self.checked_blocks)
        blocks = np.arange(count) if positions is None else positions.numpy() // ELEMENT_BLOCK
        for block in np.unique(blocks[~self.checked_blocks[blocks]]).tolist():
            if _element_checksum(elements, block) != self._elements[block]:
                raise DamagedSegmentError(self._file)
            self.checked_blocks[block] = True


def set_checksums(
    rows: Int64[np.ndarray, " chosen"],
    sets: Float[np.ndarray, "items elements dim"],
    positions: Int64[np.ndarray, " chosen"],
) -> Int64[np.ndarray, " chosen"]:
    """Checksums of the sets at these positions, which belong to these rows."""
    pairs = zip(rows.tolist(), positions.tolist(), strict=True)
    return np.array([set_checksum(row, sets[position]) for row, position in pairs], dtype=np.int64)


def element_checksums(elements: Int8[Tensor, "elements items dim"]) -> Int64[Tensor, " blocks"]:
    """One checksum per block of items."""
    blocks = range(-(-elements.shape[1] // ELEMENT_BLOCK))
    values = [_element_checksum(elements, block) for block in blocks]
    return torch.tensor(values, dtype=torch.int64)


def _element_checksum(elements: Int8[Tensor, "elements items dim"], block: int) -> int:
    items = slice(block * ELEMENT_BLOCK, (block + 1) * ELEMENT_BLOCK)
    value = 0
    for codes in elements[:, items].numpy():
        value = checksum(codes, value)
    return value
