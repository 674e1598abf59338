"""What all verbs share: how one is described, and what it checks before it starts."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from pathlib import Path

from diverset.errors import import_extra

Verbs = argparse._SubParsersAction  # the only name argparse has for it


def add_verb(
    verbs: Verbs[argparse.ArgumentParser], name: str, does: str, example: str
) -> argparse.ArgumentParser:
    """The parser of one verb, with what it does and an example in its help."""
    parser = verbs.add_parser(
        name,
        help=does,
        description=does[0].upper() + does[1:] + ".",
        epilog=f"example:\n  {example}",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.set_defaults(parser=parser)  # the innermost wins: whose usage a mistake is told with
    return parser


def add_library(parser: argparse.ArgumentParser) -> None:
    """Where the library is."""
    parser.add_argument(
        "--library", default="", help="its folder (default: ~/.local/share/diverset/default)"
    )


def show_help(parser: argparse.ArgumentParser) -> Callable[[argparse.Namespace], int]:
    """What a verb does that needs another one behind it."""

    def run(given: argparse.Namespace) -> int:
        parser.print_help()
        return 2

    return run


def need(*modules: str, extra: str = "train") -> None:
    """Say which extra is missing before a verb starts, not in the middle of it."""
    for module in modules:
        import_extra(module, extra)


def cache_folder(given: argparse.Namespace) -> Path:
    """Where features of frozen networks are kept."""
    from diverset.training.evaluating import default_cache

    return Path(given.cache) if given.cache else default_cache()
