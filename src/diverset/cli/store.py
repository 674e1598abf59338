"""The verbs `encode`, which writes sets of a large collection as shards, and `store`.

`store` has commands to inspect, check, tune and copy stored embedding sets.

`copy` and `load-shards` accept any store: a folder, qdrant://host:6333/collection,
qdrant:folder#collection or postgresql://user@host/database?table=name. The other commands need
the embedded index, which is a folder.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from diverset.cli.options import MODEL, add_device, add_flag, add_precision, add_rank, count, path
from diverset.cli.verb import Run, Verbs, add_verb, imported

if TYPE_CHECKING:
    from diverset.index import SetIndex


def add_encode(verbs: Verbs) -> None:
    parser = add_verb(
        verbs,
        "encode",
        "encode a large collection into shards, split over processes and machines",
        imported("encode.command", "encode", "yaml"),
        "diverset encode runs/a shards/test --split test",
        "diverset encode runs/a shards/captions --split test --captions",
        "diverset encode photos shards/mine --images ~/Pictures --rank 0 --world-size 4",
        "diverset encode models/a shards/texts --texts texts.csv --metadata author year",
        'diverset encode "models/clip?crops=5" shards/clip --images photos/',
    )
    parser.add_argument("model", type=path, metavar="MODEL", help=MODEL)
    parser.add_argument("out", type=path, help="folder for the shards")
    _add_source(parser.add_argument_group("what to encode (default: validation images of the run)"))
    add_rank(parser)
    parser.add_argument("--shard-size", type=count, default=10_000, help="items per shard")
    add_device(parser)
    add_precision(parser, "bfloat16 is faster on CPUs that support it")


def _add_source(group: argparse._ArgumentGroup) -> None:
    group.add_argument("--split", help="a split of the run's data (default: validation)")
    group.add_argument("--data", type=path, help="folder of the data, if it has moved")
    add_flag(group, "--captions", "encode the captions of the split, not its images")
    group.add_argument(
        "--images", type=path, metavar="FOLDER", help="encode all images of this folder instead"
    )
    group.add_argument(
        "--texts", type=path, metavar="TABLE", help="encode a .csv, .tsv or .parquet instead"
    )
    group.add_argument("--text-column", default="text", help="column of --texts")
    group.add_argument(
        "--id-column",
        help="column of --texts (default: id; row numbers if there is no such column)",
    )
    group.add_argument(
        "--metadata",
        nargs="+",
        default=[],
        metavar="COLUMN",
        help="columns of --texts to store for filters; in .csv and .tsv a column of numbers and "
        "empty cells becomes numbers and nulls, others stay text",
    )


def add_store(verbs: Verbs) -> None:
    parser = add_verb(
        verbs,
        "store",
        "manage stored sets: info, verify, compact, tune, copy, load-shards",
        _help,
        "diverset store info photos.index",
        "diverset store copy photos.index qdrant://localhost:6333/photos",
        "diverset store load-shards 'postgresql://me@db/photos?table=photos' shards/photos",
    )
    commands = parser.add_subparsers(title="commands", metavar="COMMAND")
    _add_local(commands, "info", "show the size and settings of an embedded index", _info)
    checks = "check the files, sets and bounds of an embedded index"
    verify = _add_local(commands, "verify", checks, _verify, " --repair")
    add_flag(
        verify, "--repair", "rebuild what is derived, keep every intact item, remove damaged ones"
    )
    verify.epilog = f"{verify.epilog}\n\nexit code 1: the index is damaged"
    _add_local(commands, "compact", "remove deleted items from an embedded index", _compact)
    tune = _add_local(
        commands,
        "tune",
        "prepare approximate search of an embedded index for a target recall",
        _tune,
        " --queries queries.npy --recall 0.95",
    )
    tune.add_argument(
        "--queries", type=path, help="query sets as .npy (default: perturbed stored sets)"
    )
    tune.add_argument("--recall", type=float, default=0.99, help="share of the exact hits to find")
    tune.add_argument("--k", type=count, default=10, help="hits per query")
    _add_copy(commands)
    _add_load_shards(commands)


def _add_local(
    commands: Verbs, name: str, summary: str, run: Run, options: str = ""
) -> argparse.ArgumentParser:
    parser = add_verb(commands, name, summary, run, f"diverset store {name} photos.index{options}")
    parser.add_argument("folder", type=path, help="folder of the embedded index")
    return parser


def _add_copy(commands: Verbs) -> None:
    parser = add_verb(
        commands,
        "copy",
        "copy all items of a store into another store",
        imported("engines.command", "copy"),
        "diverset store copy photos.index qdrant://localhost:6333/photos",
        notes="An interrupted copy resumes if its source is an unchanged folder, else restarts.",
    )
    parser.add_argument("source", type=path, help="a folder or an address")
    parser.add_argument("target", type=path, help="a folder or an address; created if missing")


def _add_load_shards(commands: Verbs) -> None:
    parser = add_verb(
        commands,
        "load-shards",
        "load the shards of `diverset encode` into a store; resumes if interrupted",
        imported("engines.command", "load_shards"),
        "diverset store load-shards photos.index shards/photos",
    )
    parser.add_argument("store", type=path, help="a folder or an address; created if missing")
    parser.add_argument("folder", type=path, help="folder of the shards")
    add_rank(parser)


def _help(args: argparse.Namespace) -> int:
    args.parser.print_help()
    return 2


def _embedded(folder: str) -> Path:
    from diverset.engines.addresses import is_engine
    from diverset.errors import OptionError

    if is_engine(folder):
        raise OptionError(
            f"this command needs an embedded index, not {folder.split(':')[0]}; use the "
            "tools of the engine, or copy its items into a folder with `diverset store copy`"
        )
    return Path(folder)


def _open(args: argparse.Namespace) -> SetIndex:
    from diverset.index import SetIndex

    return SetIndex.open(_embedded(args.folder))


def _info(args: argparse.Namespace) -> int:
    with _open(args) as index:
        settings, plan, files = index.settings, index.plan, sorted(index.folder.iterdir())
        print(f"{index.count():,} items of model {settings.model}")
        print(
            f"K = {settings.elements}, D = {settings.dim}, {settings.similarity}, "
            f"alpha = {settings.alpha:g}"
        )
        for name, suffix in (("items", ".sqlite"), ("codes", ".codes"), ("graphs", ".graph")):
            sizes = [file.stat().st_size for file in files if suffix in file.name]
            print(f"{name}: {sum(sizes) / 2**20:,.1f} MiB in {len(sizes)} files")
        if plan is None:
            print("approximate search: not tuned")
        else:
            recall = f"recall@{plan.k} {plan.recall:.4f}"
            print(f"approximate search: {recall} over {plan.queries} queries")
    return 0


def _verify(args: argparse.Namespace) -> int:
    from diverset.index.database_errors import translate_errors
    from diverset.index.repair import repair
    from diverset.index.verify import verify_folder

    folder = _embedded(args.folder)
    problems = verify_folder(folder)
    print("".join(f"{problem}\n" for problem in problems), end="")
    if problems and args.repair:
        with translate_errors(folder):
            print("\n".join(repair(folder)))
        problems = verify_folder(folder)
    if not problems:
        with _open(args) as index:
            print(f"{index.count():,} items, no problems")
    return 1 if problems else 0


def _compact(args: argparse.Namespace) -> int:
    with _open(args) as index:
        index.compact()
        print(f"{index.count():,} items, compacted")
    return 0


def _tune(args: argparse.Namespace) -> int:
    from diverset.runtime.files import load_array

    queries = load_array(args.queries) if args.queries else None
    with _open(args) as index:
        print(index.tune(queries, recall=args.recall, k=args.k))
    return 0
