"""Texts of a table in the library: `diverset index captions.csv`."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from pathlib import Path

from diverset.data.table import read_rows
from diverset.errors import DataError, OptionError
from diverset.library.catalog import Table
from diverset.library.library import Library
from diverset.library.progress import Progress, Report

BATCH = 128
COLUMNS = ("caption", "text", "title")


def index_table(
    library: Library, file: str | Path, column: str = "", report: Report | None = None
) -> tuple[int, int]:
    """Index the texts of a .csv, .tsv or .parquet; how many there are, and how many were encoded.

    Args:
        library: opened by `Library.prepare`.
        file: the table; known again by its path, rows by their number.
        column: of the texts; by default that of the last time, or else the first of caption, text,
            title that is there.
        report: called after every batch.
    """
    path = Path(os.path.abspath(file))
    if not path.is_file():
        raise DataError(
            f"there is no table {file}; check the path. What is indexed of it stays; to drop it: "
            f"diverset index --forget {file}"
        )
    stat, catalog = path.stat(), library.catalog
    known = catalog.tables().get(str(path), Table(str(path), 0, 0, 0))
    column = column or known.column
    if known == Table(str(path), stat.st_size, stat.st_mtime_ns, known.items, column):
        return known.items, 0
    index, texts = library.texts, _texts(path, column)
    # As many as may be there from now on, so that a kill leaves no text that nobody knows of.
    catalog.put_table(Table(str(path), 0, 0, max(known.items, len(texts)), column))
    encoded, started = 0, time.monotonic()
    for start in range(0, len(texts), BATCH):
        encoded += _add(library, path, start, texts[start : start + BATCH])
        if report:
            done = min(start + BATCH, len(texts))
            rate = done / max(time.monotonic() - started, 1e-9)
            report(Progress(done, len(texts), rate=rate, what="texts"))
    index.delete([_id(path, row) for row in range(len(texts), known.items)])
    catalog.put_table(Table(str(path), stat.st_size, stat.st_mtime_ns, len(texts), column))
    return len(texts), encoded


def forget_table(library: Library, table: Table) -> None:
    """Drop the texts of a table from the index."""
    library.texts.delete([_id(Path(table.path), row) for row in range(table.items)])
    library.catalog.forget_table(table.path)


def _add(library: Library, path: Path, start: int, texts: list[str]) -> int:
    """Encode the texts that are new or have changed; how many that were."""
    ids = [_id(path, start + place) for place in range(len(texts))]
    stored = library.texts.get(ids)
    known = {one: said["text"] for one, said in zip(stored.ids, stored.metadata, strict=True)}
    new = [(one, text) for one, text in zip(ids, texts, strict=True) if known.get(one) != text]
    if new:
        sets = library.model.encode_texts([text for _, text in new]).float().cpu().numpy()
        about = [{"text": text, "table": str(path)} for _, text in new]
        library.texts.add([one for one, _ in new], sets, about)
    return len(new)


def _id(path: Path, row: int) -> str:
    return f"{path}#{row}"


def _texts(path: Path, column: str) -> list[str]:
    for name in (column,) if column else COLUMNS:
        try:
            rows: Iterator[tuple[str, tuple[object, ...]]] = iter(read_rows(path, [name]))
            found = [str(row[0] or "").strip() for _, row in rows]
            return [text for text in found if text]
        except DataError as error:
            if column or "no column" not in str(error):
                raise
    raise OptionError(f"{path} has none of the columns {', '.join(COLUMNS)}; give --column")
