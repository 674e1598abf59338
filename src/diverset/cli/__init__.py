"""The command line: one sub-command a verb, errors in one line.

Verbs import what they need when they run, so that `--help` answers at once.
"""

from __future__ import annotations

import argparse
import io
import os
import sys
from collections.abc import Callable, Sequence

from diverset.cli import indexing, photos, reproducing, training
from diverset.errors import DiversetError


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a verb; a mistake of the user's ends with a message and status 2."""
    parser = _parser()
    given, rest = parser.parse_known_args(indexing.with_command(arguments))
    if rest and not getattr(given, "takes_overrides", False):
        given.parser.error(f"unrecognized arguments: {' '.join(rest)}")
    given.overrides = rest
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):  # names of files are bytes, and go out as such
            stream.reconfigure(errors="surrogateescape")
    try:
        status: int = given.run(given)
        sys.stdout.flush()
        return status
    except BrokenPipeError:  # whoever reads has seen enough, as `| head` does
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 141
    except (DiversetError, OSError) as error:
        print(f"diverset {given.verb}: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("\nstopped; the same command goes on where it can", file=sys.stderr)
        return 130


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="diverset",
        description="Find pictures by words and words by pictures, with sets of embeddings.",
    )
    parser.add_argument("--version", action="store_true", help="print the version and leave")
    parser.set_defaults(run=_version_or_help(parser), verb="", parser=parser)
    verbs = parser.add_subparsers(title="verbs", metavar="VERB", dest="verb")
    for group in (photos, indexing, training, reproducing):
        group.add_verbs(verbs)
    return parser


def _version_or_help(parser: argparse.ArgumentParser) -> Callable[[argparse.Namespace], int]:
    def run(given: argparse.Namespace) -> int:
        if given.version:
            from diverset import __version__

            print(__version__)
            return 0
        parser.print_help()
        return 2

    return run
