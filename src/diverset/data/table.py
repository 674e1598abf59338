"""Captions in a .csv, .tsv or .parquet table, one row per caption.

Rows with the same image path are captions of the same image.
"""

from __future__ import annotations

import csv
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from diverset.data.dataset import ALL, CaptionDataset
from diverset.data.image_files import attach_images
from diverset.errors import DataError, check_choice, import_extra

_DELIMITERS = {".csv": ",", ".tsv": "\t"}


class MissingColumnError(DataError):
    """A table without a requested column."""


def read_table(
    file: str | Path,
    image_root: str | Path | None,
    split: str = ALL,
    *,
    missing: str = "error",
) -> CaptionDataset:
    """Read a table of image paths, which are also the image ids, and captions.

    Args:
        file: a .csv, .tsv or .parquet file with the columns "image", "caption" and, unless all rows
            are read, "split".
        image_root: the folder that image paths are relative to, or None for captions only.
        split: a value of the column "split", several joined by "+", or "all".
        missing: what to do about missing images; see `attach_images`.
    """
    file = Path(file)
    names = [] if split == ALL else split.split("+")
    images: dict[str, int] = {}
    captions: list[str] = []
    image_index: list[int] = []
    splits: set[str] = set()
    columns = ["image", "caption", *(["split"] if names else [])]
    for image, caption, *of_split in _filled_rows(file, columns):
        splits.update(of_split)
        if not names or of_split[0] in names:
            image_index.append(images.setdefault(image, len(images)))
            captions.append(caption)
    for name in names:
        if name not in splits:
            raise DataError(
                f"{file} has no split {name!r} in column 'split'; "
                f"it has: {', '.join(sorted(splits)) or 'no rows'}"
            )
    dataset = CaptionDataset(
        name=file.stem if split == ALL else f"{file.stem}/{split}",
        image_ids=tuple(images),
        captions=tuple(captions),
        image_index=np.array(image_index, dtype=np.int64),
    )
    return attach_images(dataset, image_root, [[image] for image in images], missing)


def _filled_rows(file: Path, columns: list[str]) -> Iterator[list[str]]:
    """The stripped values of every row in these columns; none of them is empty."""
    for position, row in read_rows(file, columns):
        for column, value in zip(columns, row, strict=True):
            if not isinstance(value, str) or not value.strip():
                raise DataError(
                    f"{position} of {file} has {value!r} in column {column!r}; "
                    "fill it in or remove the row"
                )
        yield [value.strip() for value in row]


def read_rows(file: Path, columns: list[str]) -> Iterator[tuple[str, tuple[Any, ...]]]:
    """Position of each row, for error messages, and its values in the given columns."""
    suffix = file.suffix.lower()
    check_choice("the file's ending", suffix, [*_DELIMITERS, ".parquet"])
    if not file.is_file():
        raise DataError(f"there is no table {file}; check the path")
    return _parquet(file, columns) if suffix == ".parquet" else _text(file, suffix, columns)


def _text(
    file: Path, suffix: str, columns: list[str]
) -> Iterator[tuple[str, tuple[str | None, ...]]]:
    line = 1
    try:
        with file.open(encoding="utf-8-sig", newline="") as stream:
            reader = csv.DictReader(stream, delimiter=_DELIMITERS[suffix], strict=True)
            _check_columns(file, columns, list(reader.fieldnames or ()))
            for row in reader:
                # DictReader puts surplus cells under None: an unquoted delimiter.
                if None in row:
                    raise DataError(
                        f"line {reader.line_num} of {file} has more cells than the header; "
                        "quote captions that contain the delimiter"
                    )
                line = reader.line_num + 1
                yield f"line {reader.line_num}", tuple(row[column] for column in columns)
    except UnicodeDecodeError as error:
        raise DataError(f"{file} cannot be read ({error}); save it again as UTF-8") from error
    except csv.Error as error:
        raise DataError(
            f"{file} cannot be read from line {line} on ({error}); look for an open quote there"
        ) from error


def _parquet(file: Path, columns: list[str]) -> Iterator[tuple[str, tuple[Any, ...]]]:
    arrow = import_extra("pyarrow", "data")
    parquet = import_extra("pyarrow.parquet", "data")
    try:
        with parquet.ParquetFile(file) as table:
            _check_columns(file, columns, list(table.schema_arrow.names))
            number = 0
            for batch in table.iter_batches(columns=list(dict.fromkeys(columns))):
                values = [batch.column(column).to_pylist() for column in columns]
                for row in zip(*values, strict=True):
                    yield f"row {number}", row
                    number += 1
    except (arrow.ArrowException, OSError) as error:
        raise DataError(f"{file} cannot be read as parquet ({error}); copy it again") from error


def _check_columns(file: Path, columns: list[str], names: list[str]) -> None:
    for column in columns:
        if column not in names:
            raise MissingColumnError(
                f"{file} has no column {column!r}; it has: {', '.join(names) or 'no columns'}"
            )
