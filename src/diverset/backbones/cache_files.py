"""Files of a feature cache: an array that is written batch by batch and survives a kill.

    header.json    what the numbers are; written once, before the first batch
    rows.npy       the numbers, allocated at full size
    journal.jsonl  one line per finished batch, written after its numbers are on disk
    offsets.npy    index of the first row of each item, if items have several rows
    done.json      exists once every batch is finished

A batch is finished if its line is complete. An incomplete last line is truncated, and its batch is
computed again.
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

from diverset.errors import DataError, InputError, OptionError, check_choice
from diverset.runtime.files import read_json_object, write_json
from diverset.runtime.locks import file_lock

FORMAT = 2
HEADER, ROWS, OFFSETS = "header.json", "rows.npy", "offsets.npy"
JOURNAL, DONE, LOCK = "journal.jsonl", "done.json", "lock"
STORAGES = {"float16": np.float16, "bfloat16": np.int16, "float32": np.float32}
"""Types of the array on disk; numpy has no bfloat16."""


class CacheWriter:
    """A cache folder that is being filled; `CacheWriter.open` creates one."""

    def __init__(self, folder: Path, header: dict[str, Any], shape: tuple[int, ...]) -> None:
        self.folder, self.header = folder, header
        if (folder / HEADER).exists():
            check_header(folder, read_json(folder / HEADER), header)
        else:
            # The header is written last: if it exists, so does the array, with an empty journal.
            (folder / JOURNAL).unlink(missing_ok=True)
            part = folder / f"{ROWS}.part"
            dtype = STORAGES[header["storage"]]
            np.lib.format.open_memmap(part, mode="w+", dtype=dtype, shape=shape)
            os.replace(part, folder / ROWS)
            write_json(folder / HEADER, header)
        self.rows = map_rows(folder, "r+")
        self.finished = read_journal(folder / JOURNAL, repair=True)

    @classmethod
    @contextmanager
    def open(
        cls, folder: Path, header: dict[str, Any], shape: tuple[int, ...]
    ) -> Iterator[CacheWriter]:
        """Start or resume a folder, which is locked against other processes."""
        check_choice("storage", header["storage"], STORAGES)
        folder.mkdir(parents=True, exist_ok=True)
        busy = f"another process is extracting into {folder}; wait until it is done"
        with file_lock(folder / LOCK, busy):
            yield cls(folder, header, shape)

    def put(self, first: int, values: Tensor) -> None:
        """Write rows from `first` on; they are valid once `commit` names their batch."""
        self.rows[first : first + len(values)] = to_storage(values, self.header["storage"])

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


def to_storage(values: Tensor, storage: str) -> NDArray[Any]:
    """Numbers as they are stored; raises if the storage type cannot represent them."""
    if not values.isfinite().all():
        raise InputError("the backbone returned NaN or infinity; check its weights and its input")
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
    stored: NDArray[Any] = values.float().numpy().astype(STORAGES[storage])
    return stored


def from_storage(stored: NDArray[Any], storage: str) -> Tensor:
    """Stored numbers as a read-only tensor that shares their memory."""
    tensor = torch.from_numpy(stored)
    return tensor.view(torch.bfloat16) if storage == "bfloat16" else tensor


def map_rows(folder: Path, mode: Any = "c") -> np.memmap[Any, Any]:
    """The array of a folder, memory-mapped.

    Copy-on-write by default: the file cannot be changed, and torch does not warn about a read-only
    array.
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
        path: the journal; a missing file is an empty journal.
        repair: truncate the file after the last complete line; requires the lock.
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


def check_header(folder: Path, header: dict[str, Any], expected: dict[str, Any]) -> None:
    """Raise unless the header has every expected field with the expected value."""
    for key, value in expected.items():
        if header.get(key) != value:
            raise DataError(
                f"the feature cache {folder} has {key} {header.get(key)!r}, not {value!r}; "
                "it belongs to other inputs or another version, extract into another folder"
            )


def read_json(path: Path) -> dict[str, Any]:
    """A JSON file of a cache folder."""
    if not path.exists():
        raise DataError(
            f"there is no {path}; a feature cache is a folder that cache_images or cache_texts "
            "created"
        )
    return read_json_object(path, "extract again")
