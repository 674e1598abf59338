"""Copies of a whole library at one moment, taken while it is in use, and going back to one.

A snapshot is a library itself, with the item databases and without what is derived from them. The
catalog names the folders of its indexes, so a restored library becomes current at the moment when
the catalog is replaced, which is one transaction.
"""

from __future__ import annotations

import os
import shutil
import sqlite3
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path
from uuid import uuid4

from diverset.errors import DamagedError, DataError, LockedError
from diverset.index.schema import FILE as ITEMS_FILE
from diverset.photos.library.catalog import CATALOG_FILE, Catalog
from diverset.photos.library.catalog_repair import replace_catalog
from diverset.photos.library.library import INDEXES, Library, library_lock
from diverset.photos.library.verification import find_problems
from diverset.runtime.files import sync, sync_folder
from diverset.runtime.sqlite import connect, copy_database, open_file, reading, transaction

ATTEMPTS = 100  # to find a moment at which no batch is being stored


def snapshot(library: Library, target: Path) -> None:
    """Copy a library into a new folder, which gets its name once it is complete and verified."""
    if target.exists():
        raise DataError(f"{target} exists; give a new folder")
    temporary = target.with_name(f"{target.name}.part")
    if temporary.exists():  # of a snapshot that was interrupted
        shutil.rmtree(temporary)
    temporary.mkdir(parents=True)
    with _one_moment(library) as connections:
        for name, connection in connections.items():
            _copy(connection, temporary / name)
    if problems := find_problems(temporary):
        raise DamagedError(f"{library.folder} is damaged: {problems[0]}")
    _sync_all(temporary)
    os.rename(temporary, target)
    sync_folder(target.parent)


def restore(source: Path, folder: Path) -> None:
    """Make a library what it was at a snapshot; killed at any moment, it is the old or the new one.

    The restored library is a new build: processes that have the old one open are told so.
    """
    if problems := find_problems(source):
        raise DamagedError(f"{source} cannot be restored: {problems[0]}")
    folder.mkdir(parents=True, exist_ok=True)
    with library_lock(folder):
        with replace_catalog(folder) as temporary, Library.open(source) as old:
            build_id = uuid4().hex
            for name in INDEXES:
                if (old.index_folder(name) / ITEMS_FILE).exists():
                    _restore_index(old.index_folder(name), folder / f"{name}-{build_id[:16]}")
            old.catalog.backup(temporary / CATALOG_FILE)
            with closing(Catalog(temporary)) as copy:
                copy.set_info("build_id", build_id)
        with Library.open(folder) as library:
            library.sweep()


@contextmanager
def _one_moment(library: Library) -> Iterator[Mapping[str, sqlite3.Connection]]:
    """Connections that see the catalog and the indexes at the same moment, by relative path.

    A file is pending in the catalog before and while its set is stored, so the moments agree if the
    catalog does not change between them.
    """
    names = [CATALOG_FILE]
    for name in INDEXES:
        path = library.index_folder(name) / ITEMS_FILE
        names += [str(path.relative_to(library.folder))] if path.exists() else []
    for _ in range(ATTEMPTS):
        with ExitStack() as stack:
            observer = stack.enter_context(closing(connect(library.folder / CATALOG_FILE)[0]))
            before = _version(observer)
            connections = {}
            for name in names:
                connection = stack.enter_context(closing(connect(library.folder / name)[0]))
                stack.enter_context(reading(connection))
                connection.execute("SELECT * FROM totals").fetchall()  # the moment
                connections[name] = connection
            if _version(observer) == before:
                yield connections
                return
    raise LockedError(f"{library.folder} is written to all the time; try again later")


def _version(connection: sqlite3.Connection) -> int:
    """Changes when another connection commits."""
    return int(connection.execute("PRAGMA data_version").fetchone()[0])


def _copy(connection: sqlite3.Connection, file: Path) -> None:
    """Copy a database without what is derived: lists of segments, graphs and removed rows."""
    file.parent.mkdir(exist_ok=True)
    with closing(open_file(file, "rwc")) as copy:
        copy_database(connection, copy)
        if file.name == ITEMS_FILE:
            with transaction(copy):
                copy.execute("DELETE FROM segments")
                copy.execute("DELETE FROM removed")
                copy.execute("DELETE FROM fields WHERE row NOT IN (SELECT row FROM items)")
                copy.execute("DELETE FROM properties WHERE key = 'plan'")


def _restore_index(source: Path, target: Path) -> None:
    """Copy the index of a snapshot and write its segments."""
    from diverset.index import SetIndex

    connection = connect(source / ITEMS_FILE)[0]
    with closing(connection), reading(connection):
        _copy(connection, target / ITEMS_FILE)
    with SetIndex.open(target) as index:
        index.compact()
    _sync_all(target)
    sync_folder(target.parent)


def _sync_all(folder: Path) -> None:
    """Bring all files of a folder to the disk."""
    for path in sorted(folder.rglob("*")):
        if path.is_dir():
            sync_folder(path)
        else:
            with open(path, "rb+") as file:
                sync(file.fileno())
    sync_folder(folder)
