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
from diverset.errors import DataError, OptionError
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
        self, indices: ArrayLike, view: ArrayLike = 0
    ) -> Float[Tensor, "batch channels rows columns"]:
        """The maps of these pictures in float32.

        Args:
            indices: places in the list that was cached.
            view: one view for all, or one a picture.
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
        bits = np.empty((len(places), *self._views[0].shape[1:]), self._views[0].dtype)
        for number in np.unique(chosen):
            rows = np.flatnonzero(chosen == number)
            bits[rows] = self._views[number][places[rows]]
        return from_bits(bits, self.header["storage"]).permute(0, 3, 1, 2)


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
        rows = self._rows[self._offsets[place] : self._offsets[place + 1]]
        return from_bits(np.array(rows), self.header["storage"])

    def padded(self, indices: ArrayLike) -> Padded:
        """The states of these texts as a batch in float32."""
        places = _places(indices, len(self), "text")
        return Padded.of([self[int(place)] for place in places])


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
