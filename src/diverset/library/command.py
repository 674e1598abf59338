"""`diverset index FOLDER`, `status`, `watch` and `export`.

torch is imported only where something has changed.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from pathlib import Path

from diverset.errors import DataError, OptionError
from diverset.library.catalog import INDEXED, SKIPPED
from diverset.library.indexing import Outcome, forget, index_folders, is_below
from diverset.library.library import Library
from diverset.library.progress import Line
from diverset.training.memory import keep_freed_memory

TABLES = (".csv", ".tsv", ".parquet")
NAMED = 10  # skipped files that are named at the end


def add(given: argparse.Namespace) -> int:
    """Index what is given, or everything again; or forget what is given."""
    if bool(given.sources) == given.all:
        raise OptionError("give folders and tables to index, or --all for those of the library")
    if given.workers < 0 or given.batch < 1:
        raise OptionError("--batch is a number from 1 on, --workers too, or 0 for one a core")
    if given.forget:
        return _forget(given)
    tables = [one for one in given.sources if Path(one).suffix.lower() in TABLES]
    folders = [one for one in given.sources if one not in tables]
    for one in folders:
        if not Path(one).is_dir():
            what = f"{one} is a file" if Path(one).exists() else f"there is no folder {one}"
            raise DataError(f"{what}; give a folder of pictures, or a table ({', '.join(TABLES)})")
    line = Line()
    keep_freed_memory()  # batches are of one size: the same large blocks again and again
    with Library.prepare(given.library, given.model, given.rebuild) as library, library.working():
        if given.all:
            tables = list(library.catalog.tables())
        if folders or given.all:
            line.say("looking for new pictures, loading the model if there are any …")
            outcome = index_folders(library, folders, line, given.workers, given.batch)
            line.end()
            _say(outcome)
        missed = [one for one in tables if not _add_table(library, one, given, line)]
    return 2 if missed else 0


def _add_table(library: Library, table: str, given: argparse.Namespace, line: Line) -> bool:
    """Index a table; one that cannot be read does not keep the others from it."""
    from diverset.library.tables import index_table

    try:
        count, encoded = index_table(library, table, given.column, line)
    except DataError as error:
        line.end()
        print(f"diverset index: {error}", file=sys.stderr)
        return False
    line.end()
    print(f"{table}: {count:,} texts, {encoded:,} encoded")
    return True


def _forget(given: argparse.Namespace) -> int:
    """Drop folders, files and tables from the library, whether they are still there or not."""
    from diverset.library.tables import forget_table

    with Library.open(given.library) as library, library.working():
        catalog = library.catalog
        for one in given.sources:
            path = os.path.abspath(one)
            files = [f for f in catalog.files() if f.path == path or is_below(f.path, [Path(path)])]
            table = catalog.tables().get(path)
            if not files and table is None and Path(path) not in catalog.roots:
                raise DataError(f"{path} is not in the library; diverset status lists what is")
            forget(library, files)
            catalog.forget_root(Path(path))
            if table:
                forget_table(library, table)
            texts = f", {table.items:,} texts" if table else ""
            print(f"{path}: {len(files):,} files{texts} forgotten")
    return 0


def watch(given: argparse.Namespace) -> int:
    """Keep the library up to date until interrupted."""
    from diverset.library.watching import watch as keep

    if given.every <= 0:
        raise OptionError(f"--every is {given.every:g}; give seconds above 0")
    if not given.folders:
        with Library.open(given.library) as library:
            if not library.catalog.roots:
                raise OptionError(f"{library.folder} has no folders yet; give some to watch")
    keep_freed_memory()
    with Library.prepare(given.library, given.model) as library:
        print(f"watching every {given.every:g} s (stop with Ctrl+C)", file=sys.stderr, flush=True)
        keep(library, given.folders, given.every, lambda said: print(said, flush=True))
    return 0


def export(given: argparse.Namespace) -> int:
    """Write the sets, or the model, for other programs."""
    if given.onnx:
        return _export_onnx(given)
    if given.model:
        raise OptionError("--model goes with --onnx; sets are those of the library's own model")
    from diverset.library.exporting import export as write

    with Library.open(given.library) as library:
        for kind, count in write(library, given.out).items():
            print(f"{count:,} {kind} in {given.out}")
    return 0


def _export_onnx(given: argparse.Namespace) -> int:
    from diverset.loading import load
    from diverset.to_onnx import export_onnx

    if given.model:
        model = load(given.model)
    else:
        with Library.open(given.library) as library:
            model = library.model
    about = export_onnx(model, given.out)
    for side in ("images", "texts"):
        one = about[side]
        size = (Path(given.out) / one["file"]).stat().st_size / 2**20
        print(
            f"{given.out}/{one['file']}: {size:.1f} MiB, within {one['largest_difference']:.0e} "
            f"of torch ({one['checked_with']})"
        )
    return 0


def _say(outcome: Outcome) -> None:
    print(outcome)
    for path, reason in list(outcome.skipped.items())[:NAMED]:
        print(f"skipped {path}: {reason}", file=sys.stderr)
    if len(outcome.skipped) > NAMED:
        left = len(outcome.skipped) - NAMED
        print(f"and {left:,} more: diverset status --skipped lists them", file=sys.stderr)


def status(given: argparse.Namespace) -> int:
    """What the library holds."""
    with Library.open(given.library) as library:
        catalog = library.catalog
        skipped = {one.path: one.reason for one in catalog.files(SKIPPED)}
        tables = {path: table.items for path, table in catalog.tables().items()}
        found = {
            "library": str(library.folder),
            "model": library.about["model"],
            "folders": [str(root) for root in catalog.roots],
            "pictures": catalog.count(INDEXED),
            "tables": tables,
            "skipped": skipped if given.skipped else len(skipped),
            "indexing": library.job(),
        }
    if given.json:
        print(json.dumps(found, indent=2, ensure_ascii=False))
        return 0
    print(f"library   {found['library']}\nmodel     {found['model']}")
    for root in found["folders"]:
        print(f"folder    {root}{'' if Path(root).is_dir() else '  (not there now)'}")
    print(f"pictures  {found['pictures']:,}")
    for path, items in tables.items():
        print(f"texts     {items:,} of {path}")
    print(f"skipped   {len(skipped):,}" + ("" if given.skipped or not skipped else ", --skipped"))
    for path, reason in skipped.items() if given.skipped else ():
        print(f"  {path}: {reason}")
    if job := found["indexing"]:
        print(f"indexing  {job['done']:,} of {job['total']:,}, {job['rate']:.1f}/s")
    return 0
