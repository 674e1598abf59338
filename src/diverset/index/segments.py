"""Segment files: quantized codes on disk, memory-mapped and never modified.

A segment holds the codes of all items in a range of row numbers, as a safetensors file. The item
database lists the current segments. One that is missing, damaged or of another format is rebuilt
from the item database. The name of a file ends with the checksum of what every search reads; it
covers the checksums of the blocks, which are checked when they are used (`block_checks`).
"""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import load_file
from torch import Tensor

from diverset.index.block_checks import BlockChecks, element_checksums, set_checksums
from diverset.index.quantized_codes import TENSORS, Codes
from diverset.index.set_store import IndexSettings
from diverset.index.tensor_file import write_tensors
from diverset.runtime.checksums import checksum, row_checksum
from diverset.runtime.files import delete_unused, replace_durably

FORMAT = "4"
SUFFIX = ".codes"
BLOCKS = ("sets", "elements")  # checked block by block
SAFETENSORS_TEMPORARY = ".tmp"  # formats up to 3 were written to such a name first


@dataclass(frozen=True)
class Segment:
    """A row of the table `segments`: items with rows `first` to `last` are in `file`."""

    first: int
    last: int
    items: int
    file: str

    @property
    def row_checksum(self) -> int:
        return row_checksum(self.first, self.last, self.items, self.file)


def write(folder: Path, codes: Codes, settings: IndexSettings, first: int, last: int) -> Segment:
    """Write codes of the rows `first` to `last` atomically; on disk when it returns."""
    tensors = {name: getattr(codes, name).contiguous() for name in TENSORS}
    rows, sets = tensors["rows"].numpy(), tensors["sets"].numpy()
    tensors["set_checksums"] = torch.from_numpy(set_checksums(rows, sets, np.arange(len(rows))))
    tensors["element_checksums"] = element_checksums(tensors["elements"])
    # A new name each time: a reader of an older state still finds the older file.
    name = f"{first:010}-{last:010}-{uuid.uuid4().hex[:8]}{_ending(tensors)}"
    target, temporary = folder / name, folder / f"{name}.part"
    try:
        write_tensors(temporary, tensors, _properties(settings))
        temporary.chmod(folder.stat().st_mode & 0o666)  # as readable as the folder
        replace_durably(temporary, target)
    finally:
        temporary.unlink(missing_ok=True)
    return Segment(first, last, len(codes), name)


def read(folder: Path, segment: Segment, settings: IndexSettings) -> Codes | None:
    """Map a segment; None if it has to be rebuilt. Blocks are checked when they are used."""
    file = folder / segment.file
    try:
        with safe_open(file, framework="pt") as opened:
            if opened.metadata() != _properties(settings):
                return None
        tensors = load_file(file)
        if not segment.file.endswith(_ending(tensors)):
            return None
        checks = BlockChecks(file, tensors.pop("set_checksums"), tensors.pop("element_checksums"))
        codes = Codes(**tensors, checks=checks)
    except (OSError, SafetensorError, TypeError, KeyError, RuntimeError):
        return None  # torch raises RuntimeError for a file that is deleted while it is opened
    shape = (settings.elements, segment.items, settings.dim)
    fits = codes.elements.shape == shape and len(codes) == segment.items
    return codes if fits and codes.elements.dtype == torch.int8 else None


def delete_others(folder: Path, current: set[str]) -> None:
    """Delete files that are not current; a process that has one mapped can still read it.

    Call it within a write transaction: then no other process is writing a segment.
    """
    for file in folder.iterdir():
        left_over = SUFFIX in file.name or file.name.startswith(SAFETENSORS_TEMPORARY)
        if left_over and file.name not in current:
            delete_unused(file)


def _ending(tensors: Mapping[str, Tensor]) -> str:
    """Of the name of a file: the checksum of all tensors that are not checked block by block."""
    value = 0
    for name in sorted(tensors.keys() - BLOCKS):
        value = checksum(tensors[name].numpy(), value)
    return f"-{value:08x}{SUFFIX}"


def _properties(settings: IndexSettings) -> dict[str, str]:
    return {"format": FORMAT, **{name: repr(value) for name, value in vars(settings).items()}}
