"""The verbs of stored sets: encode, and index with its commands.

`diverset index FOLDER` is short for `diverset index add FOLDER`, which fills the library.
copy and add-shards take any store: a folder, qdrant://host:6333/collection,
qdrant:folder#collection or postgresql://user@host/database?table=name. The others look after the
embedded index, a folder; engines have tools of their own.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from diverset.cli.verb import Verbs, add_library, add_verb, need, show_help

if TYPE_CHECKING:
    from diverset.index.embedded import SetIndex


COMMANDS = ("add", "info", "verify", "compact", "tune", "copy", "add-shards")


def add_verbs(verbs: Verbs[argparse.ArgumentParser]) -> None:
    _add_index(verbs)
    _add_encode(verbs)


def with_command(arguments: Sequence[str] | None) -> list[str]:
    """Arguments in which `index FOLDER` has its command, add.

    >>> with_command(["index", "photos"]), with_command(["index", "info", "x"])
    (['index', 'add', 'photos'], ['index', 'info', 'x'])
    """
    found = list(sys.argv[1:] if arguments is None else arguments)
    if found[:1] == ["index"] and len(found) > 1 and found[1] not in (*COMMANDS, "-h", "--help"):
        found.insert(1, "add")
    return found


def _add_encode(verbs: Verbs[argparse.ArgumentParser]) -> None:
    encode = add_verb(
        verbs,
        "encode",
        "write the sets of a large collection as shards, split over processes and machines",
        "diverset encode runs/a shards/test --split test\n"
        "  diverset encode runs/a shards/captions --split test --captions\n"
        "  diverset encode models/a shards/photos --pictures photos --rank 0 --world 4\n"
        "  diverset encode models/a shards/texts --texts texts.csv --metadata author year",
    )
    encode.add_argument("model", metavar="RUN_OR_MODEL", help="folder of a run or of a model")
    encode.add_argument("out", help="folder for the shards")
    encode.add_argument("--split", default="", help="of the run's data (default: validation)")
    encode.add_argument("--data", default="", help="folder of the data, if it has moved")
    encode.add_argument("--captions", action="store_true", help="the split's captions, not images")
    encode.add_argument("--pictures", default="", help="all pictures under this folder instead")
    encode.add_argument("--texts", default="", help="a .csv, .tsv or .parquet of texts instead")
    encode.add_argument("--text-column", default="text", help="(default: text)")
    encode.add_argument("--id-column", default="id", help="(default: id)")
    encode.add_argument(
        "--metadata",
        nargs="+",
        default=[],
        help="columns of the table to keep for filters; a column of a .csv or .tsv that holds "
        "only numbers and empty cells becomes numbers and nulls, others stay text",
    )
    _add_share(encode)
    encode.add_argument("--shard-size", type=int, default=10_000, help="items (default: 10000)")
    encode.add_argument("--device", default="cpu")
    encode.add_argument(
        "--precision",
        default="float32",
        choices=["float32", "bfloat16"],
        help="bfloat16 is several times faster where the CPU has it (default: float32)",
    )
    encode.set_defaults(run=_encode)


def _add_index(verbs: Verbs[argparse.ArgumentParser]) -> None:
    """`diverset index ...`: a command is a function of a module that is imported when it runs."""
    index = add_verb(
        verbs,
        "index",
        "index folders of pictures and tables of texts, or look after an index",
        "diverset index ~/Pictures  (diverset index add --help lists its options)\n"
        "  diverset index captions.csv\n"
        "  diverset index info photos.index\n"
        "  diverset index tune photos.index --queries texts.npy\n"
        "  diverset index copy photos.index qdrant://localhost:6333/photos\n"
        "  diverset index add-shards 'postgresql://me@db/photos?table=photos' shards/photos",
    )
    commands = index.add_subparsers(title="commands", metavar="COMMAND", dest="command")
    index.set_defaults(run=show_help(index))
    add = add_verb(
        commands,
        "add",
        "bring the library up to date with folders of pictures and tables of texts",
        "diverset index ~/Pictures ~/scans\n"
        "  diverset index --all\n"
        "  diverset index captions.csv --column text\n"
        "  diverset index --forget ~/scans",
    )
    add.add_argument("sources", nargs="*", metavar="FOLDER_OR_TABLE")
    add.add_argument("--all", action="store_true", help="everything the library has already")
    add.add_argument("--model", default="", help="a run's or a model's folder (default: photos)")
    add.add_argument("--rebuild", action="store_true", help="encode everything anew")
    add.add_argument("--forget", action="store_true",
                     help="drop these from the library; the files stay")  # fmt: skip
    add.add_argument("--column", default="", help="of a table's texts (default: caption or text)")
    add.add_argument(
        "--workers", type=int, default=0, help="threads that read and encode (default: one a core)"
    )
    add.add_argument("--batch", type=int, default=16, help="pictures of each at once (default: 16)")
    add_library(add)
    add.set_defaults(run=_add)
    for name, does, run in (
        ("info", "what an embedded index holds, and how large it is", _info),
        ("verify", "check an embedded index: file, sets, bounds; status 1: not well", _verify),
        ("compact", "drop what was deleted from an embedded index, few files remain", _compact),
        ("tune", "make an embedded index's fast mode ready for a recall, measured", _tune),
    ):  # fmt: skip
        one = add_verb(commands, name, does, f"diverset index {name} my-index")
        one.add_argument("folder", help="of the embedded index; not an address of an engine")
        one.set_defaults(run=run)
        if name == "tune":
            one.add_argument("--queries", help=".npy of query sets; default: stored sets, turned")
            one.add_argument("--recall", type=float, default=0.99, help="default: 0.99")
            one.add_argument("--k", type=int, default=10, help="hits to find (default: 10)")

    copy = add_verb(
        commands,
        "copy",
        "copy all items of an index into another one; from a folder that has not changed since, a "
        "copy that was stopped goes on, from an engine it starts over",
        "diverset index copy photos.index qdrant://localhost:6333/photos",
    )
    copy.add_argument("source", metavar="A", help="a folder or an address")
    copy.add_argument("target", metavar="B", help="made if it is not there")
    copy.set_defaults(run=_engines_command("copy"))

    shards = add_verb(
        commands,
        "add-shards",
        "add what `diverset encode` wrote to an index, or go on with it if it is still the same",
        "diverset index add-shards photos.index shards/photos",
    )
    shards.add_argument("index", metavar="INDEX", help="a folder or an address; made if not there")
    shards.add_argument("folder", help="folder of the shards")
    _add_share(shards)
    shards.set_defaults(run=_engines_command("add_shards"))


def _add(given: argparse.Namespace) -> int:
    from diverset.library.command import add

    return add(given)


def _add_share(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--rank", type=int, help="this process (default: RANK, or 0)")
    parser.add_argument("--world", type=int, help="all processes (default: WORLD_SIZE, or 1)")


def _engines_command(name: str) -> Callable[[argparse.Namespace], int]:
    def run(given: argparse.Namespace) -> int:
        from diverset.engines import command

        found: Callable[[argparse.Namespace], int] = getattr(command, name)
        return found(given)

    return run


def _encode(given: argparse.Namespace) -> int:
    need("yaml")
    from diverset.encode import run

    return run(given)


def _open(given: argparse.Namespace) -> SetIndex:
    from diverset.engines.addresses import is_engine
    from diverset.errors import OptionError
    from diverset.index.embedded import SetIndex

    if is_engine(given.folder):
        raise OptionError(
            f"{given.command} is for the embedded index, a folder, and not for an engine "
            f"({given.folder.split(':')[0]}); use the engine's own tools, or bring its items into "
            "a folder by diverset index copy"
        )
    return SetIndex.open(given.folder)


def _info(given: argparse.Namespace) -> int:
    with _open(given) as index:
        settings, plan, files = index.settings, index.plan, sorted(index.folder.iterdir())
        print(f"{index.count():,} items of model {settings.model}")
        print(
            f"K = {settings.slots}, D = {settings.dim}, {settings.similarity}, "
            f"alpha = {settings.alpha:g}"
        )
        for name, ending in (("truth", ".sqlite"), ("codes", ".codes"), ("graphs", ".graph")):
            sizes = [file.stat().st_size for file in files if ending in file.name]
            print(f"{name}: {sum(sizes) / 2**20:,.1f} MiB in {len(sizes)} files")
        if plan is None:
            print("fast mode: not tuned")
        else:
            print(f"fast mode: recall@{plan.k} {plan.recall:.4f} over {plan.queries} queries")
    return 0


def _verify(given: argparse.Namespace) -> int:
    with _open(given) as index:
        found: Sequence[str] = index.verify()
        print("\n".join(found) or f"{index.count():,} items, all well")
    return 1 if found else 0


def _compact(given: argparse.Namespace) -> int:
    with _open(given) as index:
        index.compact()
        print(f"{index.count():,} items, compact")
    return 0


def _tune(given: argparse.Namespace) -> int:
    queries = _read_sets(given.queries) if given.queries else None
    with _open(given) as index:
        print(index.tune(queries, recall=given.recall, k=given.k))
    return 0


def _read_sets(file: str):  # type: ignore[no-untyped-def]
    import numpy as np

    from diverset.errors import DataError

    try:
        return np.load(file, allow_pickle=False)
    except (OSError, ValueError, EOFError) as error:
        raise DataError(f"cannot read {file} ({error}); give query sets as .npy") from error
