"""Checkpoints that survive a kill at any moment and are verified when read.

A checkpoint is written to a temporary file, flushed to disk and renamed. Its name holds the step
and the start of the SHA-256 of its content. The last two checkpoints are kept.
"""

from __future__ import annotations

import hashlib
import io
import re
from pathlib import Path
from typing import Any

import torch

from diverset.errors import CheckpointError
from diverset.runtime.files import write_durably

NAME = re.compile(r"step-(\d{8})-([0-9a-f]{16})\.pt")
KEEP = 2


def save_checkpoint(folder: Path, step: int, content: dict[str, Any]) -> Path:
    """Write a checkpoint and remove all but the newest ones."""
    folder.mkdir(parents=True, exist_ok=True)
    stream = io.BytesIO()
    torch.save(content, stream)
    data = stream.getvalue()
    file = folder / f"step-{step:08d}-{_checksum(data)}.pt"
    write_durably(file, data)
    # One per step: at the end of an epoch, the one after validation replaces the one before it.
    same_step = [old for old in _list(folder) if old != file and _step(old) == step]
    others = [old for old in _list(folder) if old not in same_step]
    for old in (*same_step, *others[:-KEEP]):
        old.unlink()
    return file


def latest_checkpoint(folder: Path) -> dict[str, Any] | None:
    """The content of the newest checkpoint; None if there is none yet."""
    files = _list(folder)
    return load_checkpoint(files[-1]) if files else None


def load_checkpoint(file: Path) -> dict[str, Any]:
    """Read a checkpoint and verify its checksum."""
    try:
        data = file.read_bytes()
    except OSError as error:
        raise CheckpointError(
            f"cannot read {file}: {error.strerror}; check its permissions"
        ) from error
    name = NAME.fullmatch(file.name)
    if name is None:
        raise CheckpointError(f"{file} is not a checkpoint; give a file step-STEP-CHECKSUM.pt")
    if _checksum(data) != name[2]:
        older = [other for other in _list(file.parent) if other.name < file.name]
        advice = f"delete it to resume from {older[-1].name}" if older else "start the run again"
        raise CheckpointError(f"{file} is damaged: its checksum does not match; {advice}")
    content: dict[str, Any] = torch.load(io.BytesIO(data), map_location="cpu", weights_only=True)
    return content


def _checksum(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()[:16]


def _step(file: Path) -> int:
    return int(file.name.split("-")[1])


def _list(folder: Path) -> list[Path]:
    if not folder.is_dir():
        return []
    return sorted(path for path in folder.iterdir() if NAME.fullmatch(path.name))
