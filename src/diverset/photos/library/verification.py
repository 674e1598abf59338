"""Checks of a whole library: catalog, indexes, and whether they agree; and its repair."""

from __future__ import annotations

import os
from contextlib import closing
from pathlib import Path

from diverset.errors import IndexFileError, a_few
from diverset.index.schema import FILE as ITEMS_FILE
from diverset.photos.library.catalog import CATALOG_FILE, INDEXED
from diverset.photos.library.catalog_repair import salvage_catalog
from diverset.photos.library.library import (
    INDEXES,
    Library,
    library_lock,
    open_catalog,
    stored_indexes,
)
from diverset.photos.library.quick_repair import differences, quick_repair, reconcile, repair_index
from diverset.runtime.sqlite import has_wrong_checksum


def find_problems(folder: Path) -> list[str]:
    """Descriptions of what is wrong with a library; empty if nothing is."""
    from diverset.index.verify import verify_folder

    unused = has_wrong_checksum(folder / CATALOG_FILE)  # before SQLite opens the file
    try:
        library = Library.open(folder)
    except IndexFileError as error:
        if not (folder / CATALOG_FILE).exists() and not stored_indexes(folder):
            raise  # no library at all
        return [str(error)]
    problems = []
    if unused:
        problems.append(
            f"{CATALOG_FILE} is damaged in bytes that no table uses; every record is intact: "
            "--repair rewrites the file"
        )
    with library:
        for name in INDEXES:
            index = library.index_folder(name)
            if (index / ITEMS_FILE).exists():
                damaged = [f"{index.name}: {problem}" for problem in verify_folder(index)]
                problems += damaged or _disagreements(library, name)
        current = {library.index_folder(name) for name in INDEXES}
        left_over = [path.name for path in stored_indexes(folder) if path not in current]
        problems += [f"{name} belongs to no catalog; --repair deletes it" for name in left_over]
    return problems


def _disagreements(library: Library, name: str) -> list[str]:
    lost, orphans = differences(library, name)
    descriptions = (
        (lost, "are in the catalog but have no set; diverset index encodes them again"),
        (orphans, "have a set but are not in the catalog; --repair removes them"),
    )
    return [f"{name}: {a_few(sorted(ids))} {problem}" for ids, problem in descriptions if ids]


def missing_files(library: Library) -> list[str]:
    """Indexed files that are not on the disk now; no damage, since a disk may not be connected."""
    files = library.catalog.files(INDEXED)
    return [record.path for record in files if not os.path.exists(record.path)]


def repair_library(folder: Path) -> list[str]:
    """Repair a library with everything that is intact; returns what was done."""
    from diverset.index.verify import verify_folder

    if has_wrong_checksum(folder / CATALOG_FILE):
        with library_lock(folder):
            salvage_catalog(folder)
    with closing(open_catalog(folder)) as catalog:
        if "fingerprint" not in catalog.info:  # another model than before would be a surprise
            return ["the record of the model is lost; index again with the same --model"]
    with Library.open_or_create(folder) as library, library.indexing_lock():
        actions = quick_repair(library)
        for name in INDEXES:
            index = library.index_folder(name)
            if index.exists() and verify_folder(index):
                actions += repair_index(library, name)
                actions += reconcile(library, name)
    return actions
