"""`diverset index`, `status`, `watch` and `export`.

torch is imported only if something has changed.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections import Counter
from collections.abc import Sequence
from functools import partial
from pathlib import Path

from diverset.data.walking import is_within
from diverset.errors import DataError, OptionError
from diverset.photos.library.catalog import INDEXED
from diverset.photos.library.indexing import index_folders, remove_files
from diverset.photos.library.library import Library
from diverset.photos.library.result import IndexingResult, describe_ignored
from diverset.runtime.memory import tune_glibc_malloc
from diverset.runtime.progress import Progress
from diverset.runtime.terminal import printable

TABLES = (".csv", ".tsv", ".parquet")
MAX_LISTED = 10  # skipped files that are listed at the end


def index(args: argparse.Namespace) -> int:
    """Index the sources, or everything again; or remove the sources from the library."""
    if bool(args.sources) == args.all:
        raise OptionError("give folders and tables, or --all for those of the library, not both")
    if args.forget:
        return _forget(args)
    tables = [source for source in args.sources if Path(source).suffix.lower() in TABLES]
    folders = [source for source in args.sources if source not in tables]
    expected = f"give a folder of photos, or a table ({', '.join(TABLES)})"
    _reject_files(folders, expected)
    for folder in folders:
        if not Path(folder).exists():
            raise DataError(f"there is no folder {folder}; {expected}")
    tune_glibc_malloc()  # every batch allocates the same large blocks again
    with (
        Library.open_or_create(args.library, args.model, args.rebuild) as library,
        library.indexing_lock(),
        Progress() as progress,
    ):
        if args.all:
            tables = list(library.catalog.tables())
        if folders or args.all:
            progress.status("looking for new photos")
            result = index_folders(library, folders, progress, args.workers, args.batch)
            progress.clear()
            _print_result(result)
        failed = [table for table in tables if not _index_table(library, table, args, progress)]
    return 2 if failed else 0


def _reject_files(folders: Sequence[str], expected: str) -> None:
    for folder in folders:
        if Path(folder).exists() and not Path(folder).is_dir():
            raise DataError(f"{folder} is a file; {expected}")


def _index_table(
    library: Library, table: str, args: argparse.Namespace, progress: Progress
) -> bool:
    """Index a table; one that cannot be read does not stop the others."""
    from diverset.photos.library.tables import index_table

    try:
        count, encoded = index_table(library, table, args.column, progress)
    except DataError as error:
        progress.message(f"diverset index: {error}")
        return False
    progress.clear()
    print(f"{printable(table)}: {count:,} texts, {encoded:,} encoded")
    return True


def _forget(args: argparse.Namespace) -> int:
    """Remove folders, files and tables from the library, whether they still exist or not."""
    from diverset.photos.library.tables import remove_table

    with Library.open(args.library) as library, library.indexing_lock():
        catalog = library.catalog
        for source in args.sources:
            path = os.path.abspath(source)
            files = [file for file in catalog.files() if is_within(file.path, [path])]
            table = catalog.tables().get(path)
            if not files and table is None and Path(path) not in catalog.roots:
                raise DataError(f"{path} is not in the library; see: diverset status")
            remove_files(library, files)
            catalog.remove_root(Path(path))
            if table:
                remove_table(library, table)
            texts = f" and {table.items:,} texts" if table else ""
            print(f"{printable(path)}: {len(files):,} files{texts} removed from the library")
    return 0


def watch(args: argparse.Namespace) -> int:
    from diverset.photos.library import watching

    _reject_files(args.folders, "give a folder of photos; it is watched even if it is missing now")
    if not args.folders:
        with Library.open(args.library) as library:
            if not library.catalog.roots:
                raise OptionError(f"{library.folder} has no folders yet; give folders to watch")
    tune_glibc_malloc()
    with Library.open_or_create(args.library, args.model) as library:
        print(f"watching every {args.every:g} s (stop with Ctrl+C)", file=sys.stderr, flush=True)
        report = partial(print, flush=True)
        watching.watch(library, args.folders, args.every, lambda text: report(printable(text)))
    return 0


def export(args: argparse.Namespace) -> int:
    from diverset.photos.library import exporting

    if args.onnx:
        return _export_onnx(args)
    if args.model:
        raise OptionError("--model needs --onnx; the sets are those of the library's own model")
    with Library.open(args.library) as library:
        for name, count in exporting.export(library, args.out).items():
            print(f"{count:,} {name} in {args.out}")
    return 0


def _export_onnx(args: argparse.Namespace) -> int:
    from diverset.model.load import load
    from diverset.model.onnx import export_onnx

    if args.model:
        model = load(args.model)
    else:
        with Library.open(args.library) as library:
            model = library.model
    exported = export_onnx(model, args.out)
    for side in ("images", "texts"):
        file = exported[side]
        size = (Path(args.out) / file["file"]).stat().st_size / 2**20
        print(
            f"{args.out}/{file['file']}: {size:.1f} MiB, within {file['largest_difference']:.0e} "
            f"of torch ({file['checked_with']})"
        )
    return 0


def _print_result(result: IndexingResult) -> None:
    for action in result.repaired:
        print(f"repaired: {action}", file=sys.stderr)
    print(result)
    if result.ignored:
        print(printable(f"ignored {describe_ignored(result.ignored)}"), file=sys.stderr)
    for path, reason in list(result.skipped.items())[:MAX_LISTED]:
        print(printable(f"skipped {path}: {reason}"), file=sys.stderr)
    if (more := len(result.skipped) - MAX_LISTED) > 0:
        print(f"and {more:,} more; list them with: diverset status --skipped", file=sys.stderr)


def _ignored(library: Library) -> Counter[str]:
    """Files that are not images, by kind, when the folders were last indexed."""
    roots = {str(root) for root in library.catalog.roots}
    outer = {root for root in roots if not is_within(root, roots - {root})}  # hold the others
    by_root: dict[str, dict[str, int]] = library.info.get("ignored", {})
    return sum((Counter(by_root.get(root, {})) for root in outer), Counter())


def status(args: argparse.Namespace) -> int:
    with Library.open(args.library) as library:
        catalog = library.catalog
        skipped = library.skipped()
        tables = {path: table.items for path, table in catalog.tables().items()}
        content = {
            "library": str(library.folder),
            "model": library.info["model"],
            "folders": [str(root) for root in catalog.roots],
            "images": catalog.count(INDEXED),
            "tables": tables,
            "skipped": skipped if args.skipped else len(skipped),
            "ignored": dict(_ignored(library)),
            "indexing": library.indexing_progress(),
            "damaged": (problems := library.damaged_segments()),
        }
    if args.json:
        # JSON cannot hold the bytes of a name that is not UTF-8.
        text = json.dumps(content, indent=2, ensure_ascii=False)
        print(text.encode("utf-8", "backslashreplace").decode())
        return 0
    print(f"library   {printable(content['library'])}\nmodel     {printable(content['model'])}")
    for root in content["folders"]:
        print(f"folder    {printable(root)}{'' if Path(root).is_dir() else '  (missing now)'}")
    print(f"photos    {content['images']:,}")
    for path, items in tables.items():
        print(f"texts     {items:,} from {printable(path)}")
    hint = "" if args.skipped or not skipped else " (list them with --skipped)"
    print(f"skipped   {len(skipped):,}{hint}")
    for path, reason in skipped.items() if args.skipped else ():
        print(f"  {printable(path)}: {printable(reason)}")
    if content["ignored"]:
        print(printable(f"ignored   {describe_ignored(content['ignored'])}"))
    for problem in problems:
        print(f"damaged   {problem}; diverset index --all rebuilds it")
    if progress := content["indexing"]:
        print(f"indexing  {progress['done']:,} of {progress['total']:,}, {progress['rate']:.1f}/s")
    return 0
