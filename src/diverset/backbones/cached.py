"""Reading features that a frozen backbone has given once: maps of pictures, states of tokens.

Files stay on disk and are mapped; a batch costs the reading of its own rows. It runs no network.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from jaxtyping import Float
from numpy.typing import ArrayLike, NDArray
from torch import Tensor

from diverset.backbones.store import (
    DONE,
    FORMAT,
    HEADER,
    JOURNAL,
    OFFSETS,
    check_header,
    from_bits,
    map_rows,
    read_journal,
    read_json,
)
from diverset.errors import DataError, InputError, OptionError, ShapeError
from diverset.types import Padded


class CachedMaps:
    """Feature maps by picture, one array a view; view 0 is the plain picture.

    Maps are stored (pictures, rows, columns, channels). A batch is handed out as (batch,
    channels, rows, columns) without moving anything, and the projection, which wants the cells in
    rows, reads them in the order in which they lie on disk.

    Attributes:
        valid: True where the picture could be read.
        unreadable: the reason for every picture that could not, by its path.
    """

    def __init__(self, folders: Sequence[Path]) -> None:
        self.folders = tuple(folders)
        headers = [_complete(folder, "pictures") for folder in self.folders]
        self.header = headers[0]
        self._views = [map_rows(folder) for folder in self.folders]
        for folder, view in zip(self.folders, self._views, strict=True):
            if view.shape != self._views[0].shape:
                raise DataError(
                    f"{folder} holds {view.shape} and {self.folders[0]} {self._views[0].shape}; "
                    "views of one cache have one shape"
                )
        self.valid: NDArray[np.bool_] = np.ones(len(self), dtype=bool)
        self.unreadable: dict[str, str] = {}
        for folder in self.folders:
            for item in read_json(folder / DONE)["unreadable"]:
                self.valid[item["index"]] = False
                self.unreadable[item["path"]] = item["reason"]

    def __len__(self) -> int:
        return len(self._views[0])

    @property
    def views(self) -> int:
        return len(self._views)

    @property
    def shape(self) -> tuple[int, int, int]:
        """Channels, rows and columns of a map."""
        _, rows, columns, channels = self._views[0].shape
        return channels, rows, columns

    @property
    def width(self) -> int:
        return self.shape[0]

    def maps(
        self, indices: ArrayLike, view: ArrayLike = 0, out: Tensor | None = None
    ) -> Float[Tensor, "batch channels rows columns"]:
        """The maps of these pictures in float32.

        Args:
            indices: places in the list that was cached.
            view: one view for all, or one a picture.
            out: a batch that was handed out before and is no longer needed; its memory is used
                again. Fresh memory costs several times more than the copying.
        """
        places = _places(indices, len(self), "picture")
        if not self.valid[places].all():
            wrong = int(places[~self.valid[places]][0])
            raise DataError(
                f"picture {wrong} of the cache could not be read when it was made; "
                "take only those where `valid` is True"
            )
        chosen = np.broadcast_to(np.asarray(view, dtype=np.int64), places.shape)
        if chosen.size and not 0 <= chosen.min() <= chosen.max() < self.views:
            raise OptionError(f"view {chosen.max()}; this cache has {self.views}, counted from 0")
        shape = (len(places), *self._views[0].shape[1:])
        cells = torch.empty(shape) if out is None else _reused(out, shape)
        for row, (place, number) in enumerate(zip(places, chosen, strict=True)):
            cells[row] = from_bits(self._views[number][place], self.header["storage"])
        return cells.permute(0, 3, 1, 2)


class JoinedMaps:
    """Several caches as one, counted through: what was extracted for the splits "train" and "val"
    serves "train+val".

    Attributes:
        valid, unreadable: as in `CachedMaps`.
    """

    def __init__(self, parts: Sequence[CachedMaps]) -> None:
        self.parts = tuple(parts)
        self.starts = np.cumsum([0, *map(len, parts)])
        self.valid: NDArray[np.bool_] = np.concatenate([part.valid for part in parts])
        self.unreadable = {path: why for part in parts for path, why in part.unreadable.items()}

    def __len__(self) -> int:
        return int(self.starts[-1])

    @property
    def views(self) -> int:
        return min(part.views for part in self.parts)

    @property
    def shape(self) -> tuple[int, int, int]:
        return self.parts[0].shape

    def maps(
        self, indices: ArrayLike, view: ArrayLike = 0
    ) -> Float[Tensor, "batch channels rows columns"]:
        """The maps of these pictures in float32; see `CachedMaps.maps`."""
        places = _places(indices, len(self), "picture")
        chosen = np.broadcast_to(np.asarray(view, dtype=np.int64), places.shape)
        owners = np.searchsorted(self.starts, places, side="right") - 1
        channels, rows, columns = self.shape
        cells = torch.empty(len(places), rows, columns, channels).permute(0, 3, 1, 2)
        for number in np.unique(owners).tolist():
            mine = owners == number
            some = places[mine] - self.starts[number]
            cells[torch.from_numpy(mine)] = self.parts[number].maps(some, chosen[mine])
        return cells


class CachedTokens:
    """Token states by text: one flat array of rows, and where each text starts in it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.header = _complete(folder, "texts")
        self._rows = map_rows(folder)
        self._offsets: NDArray[np.int64] = np.load(folder / OFFSETS)

    def __len__(self) -> int:
        return len(self._offsets) - 1

    @property
    def width(self) -> int:
        return int(self._rows.shape[1])

    @property
    def lengths(self) -> NDArray[np.int64]:
        """Number of tokens of each text."""
        return np.diff(self._offsets)

    def __getitem__(self, index: int) -> Float[Tensor, "tokens width"]:
        place = int(_places([index], len(self), "text")[0])
        return self._states(place).to(torch.float32, copy=True)

    def padded(self, indices: ArrayLike) -> Padded:
        """The states of these texts as a batch in float32."""
        places = _places(indices, len(self), "text")
        if not len(places):
            raise InputError("an empty batch of texts was asked for; give at least one place")
        lengths = self.lengths[places]
        values = torch.zeros(len(places), int(lengths.max()), self.width)
        for row, (place, length) in enumerate(zip(places, lengths, strict=True)):
            values[row, :length] = self._states(int(place))
        return Padded.from_lengths(values, torch.from_numpy(lengths))

    def _states(self, place: int) -> Tensor:
        rows = self._rows[self._offsets[place] : self._offsets[place + 1]]
        return from_bits(rows, self.header["storage"])


def open_maps(
    folders: str | Path | Sequence[str | Path], expected: Mapping[str, Any] | None = None
) -> CachedMaps:
    """Open finished caches of pictures, one folder a view.

    Args:
        folders: what `CachedMaps.folders` says; one folder for the plain view only.
        expected: fields of the header that must agree, e.g. {"fingerprint": ...}.
    """
    listed = [folders] if isinstance(folders, str | Path) else list(folders)
    paths = [Path(folder) for folder in listed]
    for path in paths:
        check_header(path, read_json(path / HEADER), dict(expected or {}))
    return CachedMaps(paths)


def open_tokens(folder: str | Path, expected: Mapping[str, Any] | None = None) -> CachedTokens:
    """Open a finished cache of texts; `expected` as for `open_maps`."""
    check_header(Path(folder), read_json(Path(folder) / HEADER), dict(expected or {}))
    return CachedTokens(Path(folder))


def _reused(out: Tensor, shape: tuple[int, ...]) -> Tensor:
    cells = out.permute(0, 2, 3, 1)[: shape[0]]
    if tuple(cells.shape) != shape or out.dtype != torch.float32:
        raise ShapeError(
            f"out is {out.dtype} {tuple(out.shape)}, too small or of another cache for "
            f"{shape[0]} maps {shape[1:]}; leave it out, or give what maps() returned before"
        )
    return cells


def _complete(folder: Path, kind: str) -> dict[str, Any]:
    header = read_json(folder / HEADER)
    check_header(folder, header, {"format": FORMAT, "kind": kind})
    if not (folder / DONE).exists():
        finished = len(read_journal(folder / JOURNAL))
        raise DataError(
            f"the cache {folder} is not complete, {finished} batches are there; run the same "
            "extraction again, it goes on where it stopped"
        )
    return header


def _places(indices: ArrayLike, count: int, what: str) -> NDArray[np.int64]:
    places = np.atleast_1d(
        indices.numpy() if isinstance(indices, torch.Tensor) else np.asarray(indices)
    ).astype(np.int64)
    if places.size and not 0 <= places.min() <= places.max() < count:
        raise OptionError(
            f"{what} {int(places.min())} to {int(places.max())} of a cache of {count}; "
            f"places go from 0 to {count - 1}"
        )
    return places
