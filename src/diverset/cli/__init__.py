"""The command line: one subcommand per verb, grouped by purpose.

Verbs import their implementation when they run, so `--help` answers without loading torch.
"""

from __future__ import annotations

import argparse
import io
import os
import sys
from collections.abc import Sequence

from diverset.cli import photos, store
from diverset.cli.calibrate import add_calibrate
from diverset.cli.data import add_data
from diverset.cli.evaluate import add_evaluate
from diverset.cli.models import add_export_model, add_import_reference
from diverset.cli.options import add_flag
from diverset.cli.reproduce import add_demo, add_reproduce
from diverset.cli.train import add_train
from diverset.cli.verb import Parser, Verbs
from diverset.errors import DiversetError
from diverset.runtime.terminal import printable

GROUPS = {
    "search your photos": photos.VERBS,
    "train and evaluate models": (
        add_data, add_train, add_evaluate, add_calibrate, add_reproduce, add_demo,
        add_import_reference, add_export_model,
    ),
    "encode and store embedding sets": (store.add_encode, store.add_store),
}  # fmt: skip
EXIT_CODES = """\
exit codes:
  0    success
  1    finished, but found a problem: no hit, a damaged index, a failed run
  2    wrong usage, or an error that is explained in one line
  130  interrupted

`diverset VERB --help` shows the options of a verb with examples."""


def main(argv: Sequence[str] | None = None) -> int:
    """Run a verb and return the exit code; errors of the user end with one line and code 2."""
    args, overrides = _parser().parse_known_args(argv)
    if overrides and not getattr(args, "takes_overrides", False):
        args.parser.error(f"unrecognized arguments: {' '.join(overrides)}")
    args.overrides = overrides
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):  # file names may be bytes that are not UTF-8
            stream.reconfigure(errors="surrogateescape")
    try:
        status: int = args.run(args)
        sys.stdout.flush()
        return status
    except BrokenPipeError:  # the reader has closed the pipe, as `| head` does
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 141
    except (DiversetError, OSError) as error:
        path = isinstance(error, OSError)
        hint = "; check the path, its permissions and the free space" if path else ""
        print(printable(f"{args.parser.prog}: {error}{hint}"), file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("\nInterrupted. Run the same command again to resume.", file=sys.stderr)
        return 130


def _parser() -> argparse.ArgumentParser:
    parser = Parser(
        prog="diverset",
        usage="diverset VERB [options]",
        description="Search images by text and text by images, with sets of embeddings.",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add_flag(parser, "--version", "print the version and exit")
    parser.set_defaults(run=_version_or_help, parser=parser)
    # argparse cannot group subcommands: they are hidden here and listed in the epilog.
    verbs: Verbs = parser.add_subparsers(prog="diverset", metavar="VERB", help=argparse.SUPPRESS)
    sections = []
    for title, functions in GROUPS.items():
        before = set(verbs.choices)
        for add in functions:
            add(verbs)
        added = [name for name in verbs.choices if name not in before]
        lines = [f"  {name:17} {verbs.choices[name].description}" for name in added]
        sections.append("\n".join([f"{title}:", *lines]))
    parser.epilog = "\n\n".join([*sections, EXIT_CODES])
    return parser


def _version_or_help(args: argparse.Namespace) -> int:
    if args.version:
        from diverset import __version__

        print(__version__)
        return 0
    args.parser.print_help()
    return 2
