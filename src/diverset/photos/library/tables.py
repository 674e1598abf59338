"""Texts of a table in the library: `diverset index captions.csv`."""

from __future__ import annotations

import os
from pathlib import Path

from diverset.data.table import MissingColumnError, read_rows
from diverset.errors import DataError
from diverset.photos.library.catalog import TextTable, text_id
from diverset.photos.library.library import Library
from diverset.photos.library.quick_repair import quick_repair
from diverset.runtime.progress import Progress

BATCH = 128
COLUMNS = ("caption", "text", "title")


def index_table(
    library: Library, file: str | Path, column: str | None = None, progress: Progress | None = None
) -> tuple[int, int]:
    """Index the texts of a .csv, .tsv or .parquet; returns (texts, newly encoded texts).

    Texts are identified by the path of the table and their row. By default they are in the column
    of the last run, else in the first of caption, text and title that exists.
    """
    path = Path(os.path.abspath(file))
    if not path.is_file():
        raise DataError(
            f"there is no table {file}; check the path. Its indexed texts stay in the library; to "
            f"remove them: diverset index --forget {file}"
        )
    quick_repair(library)
    stat, catalog = path.stat(), library.catalog
    known = catalog.tables().get(str(path), TextTable(str(path), 0, 0, 0))
    column = column or known.column
    if known == TextTable(str(path), stat.st_size, stat.st_mtime_ns, known.items, column):
        return known.items, 0
    index, texts = library.texts, _read_texts(path, column)
    # An upper bound is recorded first, so that a kill leaves no text in the index unrecorded.
    catalog.put_table(TextTable(str(path), 0, 0, max(known.items, len(texts)), column))
    encoded = 0
    for start in range(0, len(texts), BATCH):
        encoded += _add(library, path, start, texts[start : start + BATCH])
        if progress:
            progress.update("texts", min(start + BATCH, len(texts)), len(texts))
    index.delete([text_id(path, row) for row in range(len(texts), known.items)])
    catalog.put_table(TextTable(str(path), stat.st_size, stat.st_mtime_ns, len(texts), column))
    return len(texts), encoded


def remove_table(library: Library, table: TextTable) -> None:
    """Remove the texts of a table from the library."""
    library.texts.delete([text_id(Path(table.path), row) for row in range(table.items)])
    library.catalog.remove_table(table.path)


def _add(library: Library, path: Path, start: int, texts: list[str]) -> int:
    """Encode and store new and changed texts; returns their number."""
    ids = [text_id(path, start + row) for row in range(len(texts))]
    stored = library.texts.get(ids)
    known = {
        id_: metadata["text"] for id_, metadata in zip(stored.ids, stored.metadata, strict=True)
    }
    new = {id_: text for id_, text in zip(ids, texts, strict=True) if known.get(id_) != text}
    if new:
        sets = library.model.encode_texts(list(new.values())).float().cpu().numpy()
        metadata = [{"text": text, "table": str(path)} for text in new.values()]
        library.texts.add(list(new), sets, metadata)
    return len(new)


def _read_texts(path: Path, column: str | None) -> list[str]:
    reason = ""
    for name in COLUMNS if column is None else (column,):
        try:
            texts = [str(row[0] or "").strip() for _, row in read_rows(path, [name])]
            return [text for text in texts if text]
        except MissingColumnError as error:
            reason = f"{error}; give the column of the texts with --column"
    raise DataError(reason)
