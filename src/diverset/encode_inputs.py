"""What `diverset encode` encodes: images or captions of a split, a folder of pictures, texts.

Everything is known by its place in a list of ids; sets are made for some places at a time, with
frozen networks run on the fly, since features of such collections fit in no cache. Ids and
metadata are checked first as every index checks them, so that no hours go into useless shards.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from torch import Tensor

from diverset.data import Collection, open_picture
from diverset.data.table import read_rows
from diverset.encode_columns import check_columns, column_values
from diverset.errors import DataError, InputError, a_few
from diverset.index.base import Metadata, Records
from diverset.index.checks import check_ids, is_storable
from diverset.index.shards import digest_of
from diverset.index.where import check_metadata
from diverset.model import Model
from diverset.training.opening import read_split
from diverset.training.settings import DataConfig

SUFFIXES = (".jpg", ".jpeg", ".png", ".webp", ".bmp", ".gif", ".tif", ".tiff")
Encoded = tuple[Records, list[str]]
log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Inputs:
    """A collection that can be encoded part by part.

    Attributes:
        name: for messages, and to recognise a folder of shards.
        ids: of all items.
        slots: elements of a set.
        encode: from places to items with their sets, and what could not be read.
        digest: of the ids, and of texts and their metadata, to recognise a folder of shards.
        columns: of a table that are kept as metadata.
    """

    name: str
    ids: Sequence[str]
    slots: int
    encode: Callable[[range], Encoded]
    digest: str
    columns: tuple[str, ...] = ()


def of_split(
    model: Model,
    data: DataConfig,
    split: str,
    root: str,
    captions: bool,
    precision: str = "float32",
) -> Inputs:
    """Images or captions of a split of the data a run was trained on."""
    data = replace(data, root=root) if root else data
    collection = read_split(data, split or data.val)
    if captions:
        return _captions(model, collection, precision)
    if model.architecture.image.kind == "regions":
        return _regions(model, collection, precision)
    if collection.pictures is None:
        raise DataError(f"{collection.name} comes without pictures; give data.images in the recipe")
    found = collection.image_ids, collection.pictures
    return _pictures(model, collection.name, *found, precision)


def of_pictures(model: Model, folder: Path, precision: str = "float32") -> Inputs:
    """All pictures under a folder, known by their paths in it."""
    files = sorted(
        file for file in folder.rglob("*") if file.suffix.lower() in SUFFIXES and file.is_file()
    )
    named = {file.relative_to(folder).as_posix(): file for file in files}
    lost = [name for name in named if not is_storable(name)]
    if lost:
        log.warning(
            "%d pictures have names that are not UTF-8 and are left out; rename them: %s",
            len(lost),
            a_few(lost),
        )
    ids = [name for name in named if is_storable(name)]
    if not ids:
        raise DataError(f"there are no pictures under {folder}; check the path")
    return _pictures(model, folder.name, ids, [named[name] for name in ids], precision)


def of_texts(
    model: Model,
    file: Path,
    id_column: str,
    text_column: str,
    kept: Sequence[str],
    precision: str = "float32",
) -> Inputs:
    """The texts of a table, with some of its columns as metadata."""
    check_columns(file, kept)
    rows = []
    for place, row in read_rows(file, [id_column, text_column, *kept]):
        if row[0] is None:
            raise DataError(f"{place} of {file} has no id; fill it in or remove the row")
        if not isinstance(row[1], str) or not row[1].strip():
            raise DataError(f"the row {row[0]!r} of {file} has no text; remove it")
        rows.append(row)
    ids = [str(row[0]) for row in rows]
    if len(set(ids)) < len(ids):
        raise DataError(f"column {id_column!r} of {file} holds an id twice; make ids unique")
    if not ids:
        raise DataError(f"{file} has no rows; check it")
    texts = [row[1].strip() for row in rows]
    columns = zip(*(row[2:] for row in rows), strict=True)
    values = [column_values(column, file.suffix.lower() != ".parquet") for column in columns]
    metadata = [
        {"text": text, **{name: column[place] for name, column in zip(kept, values, strict=True)}}
        for place, text in enumerate(texts)
    ]
    made = _texts(model, file.stem, ids, texts, metadata, precision)
    return replace(made, columns=tuple(kept))


def _captions(model: Model, collection: Collection, precision: str) -> Inputs:
    ids = collection.caption_ids or [
        f"{collection.image_ids[owner]}#{place}" for place, owner in enumerate(collection.owners)
    ]
    metadata = [
        {"text": text, "image": collection.image_ids[owner]}
        for text, owner in zip(collection.captions, collection.owners, strict=True)
    ]
    name = f"{collection.name} captions"
    return _texts(model, name, ids, collection.captions, metadata, precision)


def _texts(
    model: Model,
    name: str,
    ids: Sequence[str],
    texts: Sequence[str],
    metadata: Sequence[dict[str, Any]],
    precision: str,
) -> Inputs:
    def encode(places: range) -> Encoded:
        sets = model.encode_texts([texts[place] for place in places], precision=precision)
        return _records(places, ids, sets, metadata), []

    _check(name, ids, metadata)
    digest = digest_of(ids, texts, metadata)
    return Inputs(name, ids, model.architecture.text_set.size, encode, digest)


def _regions(model: Model, collection: Collection, precision: str) -> Inputs:
    regions = collection.regions
    if regions is None:
        raise DataError(f"{collection.name} has no region features, which this model reads")

    def encode(places: range) -> Encoded:
        some = [np.array(regions[place]) for place in places]
        sets = model.encode_images(some, precision=precision)
        return _records(places, collection.image_ids, sets), []

    slots, name, ids = model.architecture.image_set.size, collection.name, collection.image_ids
    _check(name, ids)
    return Inputs(f"{name} images", ids, slots, encode, digest_of(ids))


def _pictures(
    model: Model, name: str, ids: Sequence[str], files: Sequence[Path], precision: str
) -> Inputs:
    slots, dim = model.architecture.image_set.size, model.architecture.dim
    metadata = [{"picture": str(file)} for file in files]

    def encode(places: range) -> Encoded:
        wanted = model.picture_network().preprocess.wanted
        opened: dict[int, Any] = {}
        lost = []
        for place in places:
            try:
                opened[place] = open_picture(files[place], at_least=wanted)
            except DataError:
                lost.append(str(files[place]))
        if not opened:
            return Records([], np.zeros((0, slots, dim), np.float32), []), lost
        sets = model.encode_images(list(opened.values()), precision=precision)
        return _records(list(opened), ids, sets, metadata), lost

    _check(name, ids, metadata)
    # Without the pictures' places: processes may see the same folder under different paths.
    return Inputs(f"{name} images", ids, slots, encode, digest_of(ids))


def _check(name: str, ids: Sequence[str], metadata: Sequence[Metadata] = ()) -> None:
    """Raise where an index would not take an item in."""
    try:
        check_ids(ids)
    except InputError as error:
        raise DataError(f"{name}: {error}") from error
    for one, fields in zip(ids, metadata, strict=False):
        try:
            check_metadata(fields)
        except InputError as error:
            raise DataError(f"{name}, item {one!r}: {error}") from error


def _records(
    places: Sequence[int],
    ids: Sequence[str],
    sets: Tensor,
    metadata: Sequence[Metadata] | None = None,
) -> Records:
    return Records(
        [ids[place] for place in places],
        sets.float().cpu().numpy(),
        [{} if metadata is None else metadata[place] for place in places],
    )
