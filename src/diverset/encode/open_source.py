"""What `diverset encode` reads: a split of a dataset, a folder of images, a table of texts."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from diverset.data import CaptionDataset
from diverset.data.table import MissingColumnError, read_rows
from diverset.data.walking import Walk
from diverset.encode.columns import check_column_names, column_values
from diverset.encode.item_source import ItemSource, image_source
from diverset.errors import DataError, a_few
from diverset.index.filter_language import is_storable
from diverset.index.set_store import Metadata
from diverset.index.shards import content_hash
from diverset.model import Model

DEFAULT_ID_COLUMN = "id"
log = logging.getLogger(__name__)


def image_folder(model: Model, folder: Path, precision: str = "float32") -> ItemSource:
    """All images under a folder; their ids are their paths relative to it."""
    walk = Walk([folder])
    paths = sorted(Path(image.path) for image in walk)
    files = {path.relative_to(folder).as_posix(): path for path in paths}
    if walk.unreadable:
        reasons = [f"{path} ({reason})" for path, reason in walk.unreadable.items()]
        log.warning("%d paths cannot be read and are left out: %s", len(reasons), a_few(reasons))
    skipped = [name for name in files if not is_storable(name)]
    if skipped:
        log.warning(
            "%d images have names that are not UTF-8 and are left out; rename them: %s",
            len(skipped),
            a_few(skipped),
        )
    for name in skipped:
        del files[name]
    if not files:
        raise DataError(f"there are no images under {folder}; check the path")
    name = f"{folder.name} images"
    return image_source(model, name, list(files), list(files.values()), precision)


def text_table(
    model: Model,
    file: Path,
    text_column: str = "text",
    id_column: str | None = None,
    metadata_columns: Sequence[str] = (),
    precision: str = "float32",
) -> ItemSource:
    """The texts of a table, with some of its columns as metadata.

    Args:
        model: encodes the texts.
        file: a .csv, .tsv or .parquet file with named columns.
        text_column: of the texts.
        id_column: of the ids; by default "id", or row numbers from 1 if there is no such column.
        metadata_columns: stored with each text.
        precision: "bfloat16" is faster on CPUs that support it.
    """
    check_column_names(file, metadata_columns)
    rows = _read_rows(file, id_column, [text_column, *metadata_columns])
    if not rows:
        raise DataError(f"{file} has no rows; give a table with texts")
    ids, texts = [row[0] for row in rows], [row[1] for row in rows]
    if len(set(ids)) < len(ids):
        raise DataError(f"the id column of {file} has duplicates; make ids unique")
    metadata = _metadata(texts, metadata_columns, [row[2:] for row in rows], file)
    return _text_source(model, file.stem, ids, texts, metadata, precision, tuple(metadata_columns))


def _read_rows(file: Path, id_column: str | None, columns: list[str]) -> list[tuple[Any, ...]]:
    """Id, text and other columns of each row."""
    try:
        rows = list(read_rows(file, [id_column or DEFAULT_ID_COLUMN, *columns]))
    except MissingColumnError:
        if id_column is not None:
            raise
        numbered = enumerate(read_rows(file, columns), start=1)
        rows = [(position, (number, *row)) for number, (position, row) in numbered]
    for position, (item, text, *_) in rows:
        if item is None:
            raise DataError(f"{position} of {file} has no id; fill it in or remove the row")
        if not isinstance(text, str) or not text.strip():
            raise DataError(f"{position} of {file} has no text; remove the row")
    return [(str(item), text.strip(), *rest) for _, (item, text, *rest) in rows]


def _metadata(
    texts: Sequence[str], columns: Sequence[str], rows: Sequence[tuple[Any, ...]], file: Path
) -> list[dict[str, Any]]:
    is_text = file.suffix.lower() != ".parquet"
    values = [column_values(column, is_text) for column in zip(*rows, strict=True)]
    return [
        {"text": text, **{name: column[row] for name, column in zip(columns, values, strict=True)}}
        for row, text in enumerate(texts)
    ]


def split_images(model: Model, split: CaptionDataset, precision: str = "float32") -> ItemSource:
    """The images of a split, by their files or by their region features."""
    name = f"{split.name} images"
    if model.config.image.kind == "regions":
        if split.regions is None:
            raise DataError(f"{split.name} has no region features, which this model reads")
        ids, regions = split.image_ids, split.regions
        return ItemSource(
            model,
            "image",
            name,
            ids,
            metadata=[{}] * len(ids),
            read=lambda item: np.array(regions[item]),
            content_hash=content_hash(ids),
            precision=precision,
        )
    if split.image_paths is None:
        raise DataError(f"{split.name} has no image files; set data.images in the recipe")
    return image_source(model, name, split.image_ids, split.image_paths, precision)


def split_captions(model: Model, split: CaptionDataset, precision: str = "float32") -> ItemSource:
    """The captions of a split."""
    images = [split.image_ids[index] for index in split.image_index]
    ids = split.caption_ids or [f"{image}#{number}" for number, image in enumerate(images)]
    metadata = [
        {"text": text, "image": image} for text, image in zip(split.captions, images, strict=True)
    ]
    name = f"{split.name} captions"
    return _text_source(model, name, ids, split.captions, metadata, precision)


def _text_source(
    model: Model,
    name: str,
    ids: Sequence[str],
    texts: Sequence[str],
    metadata: Sequence[Metadata],
    precision: str,
    columns: tuple[str, ...] = (),
) -> ItemSource:
    read, key = texts.__getitem__, content_hash(ids, texts, metadata)
    return ItemSource(model, "text", name, ids, metadata, read, key, precision, columns)
