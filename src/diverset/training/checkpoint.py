"""Checkpoints that survive a kill at any moment, and say so when they are damaged.

A checkpoint is written beside its place, flushed to disk and then renamed; its name carries the
number of the step and the start of its content's SHA-256. The last two are kept.
"""

from __future__ import annotations

import hashlib
import io
import re
from pathlib import Path
from typing import Any

import torch

from diverset.data.files import write_durably
from diverset.errors import CheckpointError

NAME = re.compile(r"step-(\d{8})-([0-9a-f]{16})\.pt")
KEPT = 2


def save_checkpoint(folder: Path, step: int, content: dict[str, Any]) -> Path:
    """Write a checkpoint and remove all but the newest ones."""
    folder.mkdir(parents=True, exist_ok=True)
    stream = io.BytesIO()
    torch.save(content, stream)
    data = stream.getvalue()
    target = folder / f"step-{step:08d}-{hashlib.sha256(data).hexdigest()[:16]}.pt"
    write_durably(target, data)
    for old in _stored(folder)[:-KEPT]:
        old.unlink()
    return target


def latest_checkpoint(folder: Path) -> dict[str, Any] | None:
    """The newest checkpoint's content; None where there is none yet."""
    stored = _stored(folder)
    return load_checkpoint(stored[-1]) if stored else None


def load_checkpoint(file: Path) -> dict[str, Any]:
    """Read a checkpoint after checking that it is what was written."""
    try:
        data = file.read_bytes()
    except OSError as error:
        raise CheckpointError(f"cannot read {file}: {error.strerror}") from error
    named = NAME.fullmatch(file.name)
    if named is None:
        raise CheckpointError(f"{file} is not named like a checkpoint of a run")
    if hashlib.sha256(data).hexdigest()[:16] != named[2]:
        older = [one for one in _stored(file.parent) if one.name < file.name]
        way = f"delete it to go on from {older[-1].name}" if older else "start the run anew"
        raise CheckpointError(f"{file} is damaged: its content is not what was written; {way}")
    content: dict[str, Any] = torch.load(io.BytesIO(data), map_location="cpu", weights_only=True)
    return content


def _stored(folder: Path) -> list[Path]:
    if not folder.is_dir():
        return []
    return sorted(path for path in folder.iterdir() if NAME.fullmatch(path.name))
