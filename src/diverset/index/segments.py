"""Codes on disk: files that are derived from the truth, mapped into memory, and never changed.

A segment holds the codes of all items in a range of row numbers; it is a safetensors file, and the
truth lists which ones count. One that is missing, cut short or of another kind is made again from
the truth. It does not know what codes mean.
"""

from __future__ import annotations

import uuid
from dataclasses import dataclass, fields
from pathlib import Path

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import load_file, save_file

from diverset.data.files import replace_durably
from diverset.index.base import Settings
from diverset.index.codes import Codes

FORMAT = "1"
ENDING = ".codes"


@dataclass(frozen=True)
class Segment:
    """A line of the truth's table: rows `first` to `last` are coded in `file`."""

    first: int
    last: int
    items: int
    file: str


def write(folder: Path, codes: Codes, settings: Settings, first: int, last: int) -> Segment:
    """Write codes of the rows `first` to `last`: all or nothing, and on disk when it returns."""
    # A new name each time: who still reads by an older state of the truth finds the older file.
    name = f"{first:010}-{last:010}-{uuid.uuid4().hex[:8]}{ENDING}"
    target, beside = folder / name, folder / f"{name}.part"
    tensors = {field.name: getattr(codes, field.name).contiguous() for field in fields(codes)}
    try:
        save_file(tensors, beside, metadata=_about(settings))
        beside.chmod(folder.stat().st_mode & 0o666)  # who may read the folder may read the file
        replace_durably(beside, target)
    except SafetensorError as error:  # how it reports a full disk
        raise OSError(None, str(error), str(target)) from error
    finally:
        beside.unlink(missing_ok=True)
    return Segment(first, last, len(codes), name)


def read(folder: Path, segment: Segment, settings: Settings) -> Codes | None:
    """Map a segment; None if it has to be made again."""
    file = folder / segment.file
    try:
        with safe_open(file, framework="pt") as opened:
            if opened.metadata() != _about(settings):
                return None
        codes = Codes(**load_file(file))
    except (OSError, SafetensorError, TypeError, RuntimeError):
        return None  # the last one is torch's, for a file that is swept while it is opened
    slots, dim = settings.slots, settings.dim
    fits = codes.elements.shape == (slots, segment.items, dim) and len(codes) == segment.items
    return codes if fits and codes.elements.dtype == torch.int8 else None


def sweep(folder: Path, kept: set[str]) -> None:
    """Delete files that no longer count; who has them mapped keeps them until done."""
    for file in folder.iterdir():
        if ENDING in file.name and file.name not in kept:
            file.unlink(missing_ok=True)


def _about(settings: Settings) -> dict[str, str]:
    return {"format": FORMAT, **{name: repr(value) for name, value in vars(settings).items()}}
