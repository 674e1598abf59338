"""Quick checks and repairs of a library before indexing: its indexes agree with its catalog.

Files whose set is lost become pending, so that they are encoded again; sets whose file is not in
the catalog are deleted. Call these functions with the lock of the library held.
"""

from __future__ import annotations

import shutil
from dataclasses import replace

from diverset.index.quick_checks import database_problem, item_count, segment_problems
from diverset.index.schema import FILE as ITEMS_FILE
from diverset.photos.library.catalog import INDEXED, PENDING, text_id
from diverset.photos.library.library import INDEXES, Library


def quick_repair(library: Library) -> list[str]:
    """Repair what a quick check finds; returns what was done."""
    library.sweep()
    actions = []
    for name in INDEXES:
        folder = library.index_folder(name)
        if not folder.exists() and not library.recorded_items(name):
            continue
        problem = database_problem(folder)
        if problem or segment_problems(folder):
            actions += repair_index(library, name)
        if problem or not counts_agree(library, name):
            actions += reconcile(library, name)
    return actions


def repair_index(library: Library, name: str) -> list[str]:
    """Repair an index with everything that is intact in it; a lost one becomes an empty one."""
    from diverset.index import SetIndex
    from diverset.index.repair import repair

    folder = library.index_folder(name)
    library.close_indexes()
    if (folder / ITEMS_FILE).exists() and (folder / ITEMS_FILE).stat().st_size:
        return [
            f"{folder.name}: {action}" for action in repair(folder, library.index_settings(name))
        ]
    if folder.exists():
        shutil.rmtree(folder)
    SetIndex.create(folder, library.index_settings(name)).close()
    return [f"{folder.name}: {ITEMS_FILE} was missing; its {name} are encoded again"]


def counts_agree(library: Library, name: str) -> bool:
    """Whether an index has as many items as the catalog says."""
    folder, catalog = library.index_folder(name), library.catalog
    count = item_count(folder) if (folder / ITEMS_FILE).exists() else 0
    if name == "texts":
        complete = sum(table.items for table in catalog.tables().values() if table.size)
        return complete <= count <= library.recorded_items(name)
    indexed = catalog.count(INDEXED)
    return indexed <= count <= indexed + catalog.count(PENDING)


def reconcile(library: Library, name: str) -> list[str]:
    """Compare an index with the catalog item by item, and make them agree."""
    lost, orphans = differences(library, name)
    if name == "images":
        records = [record for record in library.catalog.files(INDEXED) if record.path in lost]
        library.catalog.put_files(replace(record, status=PENDING) for record in records)
    elif lost:
        for table in library.catalog.tables().values():
            library.catalog.put_table(replace(table, size=0, mtime_ns=0))
    getattr(library, name).delete(sorted(orphans))
    actions = (
        (lost, f"{name} without a set are encoded again"),
        (orphans, "sets without a record removed"),
    )
    return [f"{len(ids):,} {action}" for ids, action in actions if ids]


def differences(library: Library, name: str) -> tuple[set[str], set[str]]:
    """Ids that only the catalog has, and ids that only the index has."""
    stored = set(getattr(library, name).ids())
    catalog = library.catalog
    if name == "images":
        indexed = {record.path for record in catalog.files(INDEXED)}
        known = indexed | {record.path for record in catalog.files(PENDING)}
    else:
        tables = catalog.tables().values()
        known = {text_id(table.path, row) for table in tables for row in range(table.items)}
        complete = [table for table in tables if table.size]
        indexed = {text_id(table.path, row) for table in complete for row in range(table.items)}
    return indexed - stored, stored - known
