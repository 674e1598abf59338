"""`diverset index`: looking at an index, checking it, and keeping it fast.

It imports nothing heavy before a verb runs.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from diverset.index.embedded import SetIndex

Verb = Callable[..., argparse.ArgumentParser]


def add_verbs(parser: argparse.ArgumentParser, verb: Verb) -> None:
    """The verbs under `diverset index`.

    Args:
        parser: of `diverset index` itself.
        verb: makes the parser of one verb from (verbs, name, what it does, example).
    """
    verbs = parser.add_subparsers(title="verbs", metavar="VERB", dest="index_verb", required=True)
    for name, does, run in (
        ("info", "what an index holds, and how large it is", _info),
        ("verify", "check the file, every set and every bound; status 1: not well", _verify),
        ("compact", "drop what was deleted or replaced, and bring the files into few", _compact),
        ("tune", "make the fast mode ready for a wanted recall, measured on your data", _tune),
    ):  # fmt: skip
        one = verb(verbs, name, does, f"diverset index {name} my-index")
        one.add_argument("folder", help="of the index")
        one.set_defaults(run=run)
        if name == "tune":
            one.add_argument("--queries", help=".npy of query sets; default: stored sets, turned")
            one.add_argument("--recall", type=float, default=0.99, help="default: 0.99")
            one.add_argument("--k", type=int, default=10, help="hits to find (default: 10)")


def _open(given: argparse.Namespace) -> SetIndex:
    from diverset.index.embedded import SetIndex

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
