"""`diverset verify`, `snapshot` and `restore`."""

from __future__ import annotations

import argparse
from pathlib import Path

from diverset.photos.library.catalog import INDEXED
from diverset.photos.library.library import Library, library_folder
from diverset.photos.library.snapshot import restore as restore_library
from diverset.photos.library.snapshot import snapshot as take_snapshot
from diverset.photos.library.verification import find_problems, missing_files, repair_library


def verify(args: argparse.Namespace) -> int:
    folder = library_folder(args.library)
    problems = _print_problems(folder)
    if problems and args.repair:
        for action in repair_library(folder):
            print(f"repaired: {action}")
        problems = _print_problems(folder)
    if problems:
        return 1
    with Library.open(folder) as library:
        missing, count = missing_files(library), library.catalog.count(INDEXED)
    print(f"{count:,} photos, no problems")
    if missing:
        print(f"{len(missing):,} photos are not on the disk now; diverset index --all updates them")
    return 0


def _print_problems(folder: Path) -> list[str]:
    problems = find_problems(folder)
    for problem in problems:
        print(problem)
    return problems


def snapshot(args: argparse.Namespace) -> int:
    with Library.open(args.library) as library:
        take_snapshot(library, Path(args.target))
    print(f"{args.target}: a complete library; go back to it with diverset restore {args.target}")
    return 0


def restore(args: argparse.Namespace) -> int:
    folder = library_folder(args.library)
    restore_library(Path(args.snapshot), folder)
    with Library.open(folder) as library:
        print(f"{folder}: {library.catalog.count(INDEXED):,} photos restored")
    return 0
