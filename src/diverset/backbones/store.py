"""An array on disk that is filled batch by batch and survives being killed at any moment.

    header.json    what the numbers are; written once, before the first batch
    rows.npy       the numbers, at full size from the start
    journal.jsonl  one line a finished batch, written after its numbers are on disk
    offsets.npy    where each item's rows start, if items have several
    done.json      only there when every batch is

A batch counts when its line is complete; a torn last line is cut off and its batch done again. It
knows nothing of networks, pictures or texts.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from diverset.data.files import write_durably
from diverset.errors import DataError, InputError, OptionError, check_choice

FORMAT = 1
HEADER, ROWS, JOURNAL, DONE, LOCK, OFFSETS = (
    "header.json", "rows.npy", "journal.jsonl", "done.json", "lock",
    "offsets.npy",
)  # fmt: skip
STORAGES = {"float16": np.float16, "bfloat16": np.int16, "float32": np.float32}
"""What numpy calls the bits; it has no bfloat16."""


class Store:
    """A folder being filled; use it through `Store.writing`."""

    def __init__(self, folder: Path, header: dict[str, Any], shape: tuple[int, ...]) -> None:
        self.folder, self.header = folder, header
        rows = folder / ROWS
        if (folder / HEADER).exists():
            check_header(folder, read_json(folder / HEADER), header)
        else:
            # The header last: where it is, the array is, and no journal of something else.
            (folder / JOURNAL).unlink(missing_ok=True)
            part = rows.with_suffix(".part")
            kind = STORAGES[header["storage"]]
            np.lib.format.open_memmap(part, mode="w+", dtype=kind, shape=shape)
            os.replace(part, rows)
            write_json(folder / HEADER, header)
        self.rows = map_rows(folder, "r+")
        self.finished = read_journal(folder / JOURNAL, repair=True)

    @classmethod
    @contextmanager
    def writing(
        cls, folder: Path, header: dict[str, Any], shape: tuple[int, ...]
    ) -> Iterator[Store]:
        """Start or continue a folder that no other process writes to."""
        check_choice("storage", header["storage"], STORAGES)
        folder.mkdir(parents=True, exist_ok=True)
        with _locked(folder):
            yield cls(folder, header, shape)

    def put(self, first: int, values: Tensor) -> None:
        """Write rows from `first` on; they count once `commit` names their batch."""
        self.rows[first : first + len(values)] = to_bits(values, self.header["storage"])

    def commit(self, batch: int, notes: dict[str, Any]) -> None:
        """Record a batch as finished, after its numbers reached the disk."""
        self.rows.flush()
        with (self.folder / JOURNAL).open("ab") as file:
            file.write((json.dumps({"batch": batch, **notes}) + "\n").encode())
            file.flush()
            os.fsync(file.fileno())
        self.finished[batch] = notes

    def finish(self, notes: dict[str, Any], offsets: NDArray[np.int64] | None = None) -> None:
        """Mark the folder as complete."""
        if offsets is not None:
            np.save(self.folder / OFFSETS, offsets)
        write_json(self.folder / DONE, notes)


def to_bits(values: Tensor, storage: str) -> NDArray[Any]:
    """Numbers as they are stored; what the storage cannot hold is refused."""
    if not values.isfinite().all():
        raise InputError("the backbone gave NaN or infinity; look at its weights and its input")
    if storage == "bfloat16":
        bits: NDArray[Any] = values.bfloat16().view(torch.int16).numpy()
        return bits
    limit = torch.finfo(getattr(torch, storage)).max
    largest = float(values.abs().max()) if values.numel() else 0.0
    if largest > limit:
        raise OptionError(
            f"a feature of {largest:g} does not fit into {storage} (at most {limit:g}); "
            "use storage='bfloat16'"
        )
    plain: NDArray[Any] = values.float().numpy().astype(STORAGES[storage])
    return plain


def from_bits(bits: NDArray[Any], storage: str) -> Tensor:
    """Stored numbers as a tensor that shares their memory; it must only be read."""
    found = torch.from_numpy(bits)
    return found.view(torch.bfloat16) if storage == "bfloat16" else found


def map_rows(folder: Path, mode: Any = "c") -> np.memmap[Any, Any]:
    """The array of a folder, mapped into memory and not read.

    By default copy-on-write: torch warns about arrays it may not write to, and this way nobody
    can change the file.
    """
    try:
        rows: np.memmap[Any, Any] = np.lib.format.open_memmap(folder / ROWS, mode=mode)
    except (OSError, ValueError) as error:
        raise DataError(
            f"cannot map {folder / ROWS} ({error}); delete {folder} and extract again"
        ) from error
    return rows


def read_journal(path: Path, repair: bool = False) -> dict[int, dict[str, Any]]:
    """Finished batches and their notes, up to the last complete line.

    Args:
        path: the journal; none is an empty one.
        repair: cut off what follows the last complete line; only for who holds the lock.
    """
    if not path.exists():
        return {}
    content = path.read_bytes()
    finished: dict[int, dict[str, Any]] = {}
    end = 0
    for line in content.splitlines(keepends=True):
        try:
            entry = json.loads(line) if line.endswith(b"\n") else None
        except ValueError:
            entry = None
        if not isinstance(entry, dict) or "batch" not in entry:
            break
        finished[int(entry.pop("batch"))] = entry
        end += len(line)
    if repair and end < len(content):
        with path.open("r+b") as file:
            file.truncate(end)
    return finished


def check_header(folder: Path, found: dict[str, Any], wanted: dict[str, Any]) -> None:
    """Raise unless every wanted field stands in the header with the wanted value."""
    for key, value in wanted.items():
        if found.get(key) != value:
            raise DataError(
                f"the cache {folder} has {key} {found.get(key)!r}, not {value!r}; it was made "
                "from something else, so extract into another folder"
            )


def read_json(path: Path) -> dict[str, Any]:
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise DataError(
            f"cannot read {path} ({error.strerror}); a cache is a folder that cache_pictures or "
            "cache_texts made"
        ) from error
    except ValueError as error:
        raise DataError(f"{path} is not complete JSON ({error}); extract again") from error
    if not isinstance(content, dict):
        raise DataError(f"{path} holds no JSON object; extract again")
    return content


def write_json(path: Path, content: dict[str, Any]) -> None:
    write_durably(path, (json.dumps(content, indent=2) + "\n").encode())


@contextmanager
def _locked(folder: Path) -> Iterator[None]:
    try:
        import fcntl
    except ImportError:  # Windows; two extractions at once are the caller's to avoid
        yield
        return
    with (folder / LOCK).open("w") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            raise DataError(
                f"another process is extracting into {folder}; wait until it is done"
            ) from error
        yield
