"""Replacing a catalog, for example by one from every intact row of a damaged one.

Files whose record is lost are found again by the next `diverset index`; if the model of the library
is lost, it starts over with the folders that are left.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import Any

from diverset.photos.library.catalog import CATALOG_FILE, Catalog
from diverset.runtime.checksums import row_checksum
from diverset.runtime.sqlite import DATABASE_ERRORS, connect, overwrite

TEMPORARY = "catalog.part"
TABLES = ("info", "roots", "tables", "files")
REQUIRED = {"build_id", "model", "fingerprint", "dim", "alpha", "image_slots", "text_slots"}


def salvage_catalog(folder: Path) -> None:
    """Replace a damaged catalog; call it with the lock of the library held."""
    rows = {table: _intact_rows(folder / CATALOG_FILE, table) for table in TABLES}
    if not {row[0] for row in rows["info"]} >= REQUIRED:
        rows["info"] = rows["files"] = []
        rows["tables"] = [(path, 0, 0, 0, column) for path, _, _, _, column in rows["tables"]]
    with replace_catalog(folder) as temporary, closing(Catalog(temporary)) as catalog:
        for table, values in rows.items():
            catalog.put_rows(table, values)


@contextmanager
def replace_catalog(folder: Path) -> Iterator[Path]:
    """A folder for a new catalog, which replaces that of a library at the end of the block."""
    temporary = folder / TEMPORARY
    if temporary.exists():  # of a process that was interrupted
        shutil.rmtree(temporary)
    temporary.mkdir()
    yield temporary
    overwrite(folder / CATALOG_FILE, temporary / CATALOG_FILE)
    shutil.rmtree(temporary, ignore_errors=True)  # files in use: the next time


def _intact_rows(file: Path, table: str) -> list[tuple[Any, ...]]:
    """Rows that can be read and whose checksum is right."""
    rows: list[tuple[Any, ...]] = []
    with suppress(*DATABASE_ERRORS):
        connection, _ = connect(file)
        with closing(connection):
            # Without the index first: it may be the part that is damaged. Then backwards, for the
            # rows behind a damaged page.
            for order in ("", "ORDER BY 1 DESC"):
                with suppress(*DATABASE_ERRORS):
                    for row in connection.execute(f"SELECT * FROM {table} NOT INDEXED {order}"):
                        rows.append(row)
    return sorted({row[:-1] for row in rows if row_checksum(*row[:-1]) == row[-1]}, key=str)
