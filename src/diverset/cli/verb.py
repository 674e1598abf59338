"""How a verb of the command line is declared, and what it needs to run."""

from __future__ import annotations

import argparse
import importlib
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NoReturn

from diverset.errors import import_extra
from diverset.runtime.garbage import collection_paused

if TYPE_CHECKING:
    Verbs = argparse._SubParsersAction["Parser"]
else:
    Verbs = argparse._SubParsersAction  # argparse has no public name for it

Run = Callable[[argparse.Namespace], int]
TRAINING = ("yaml", "lightning_fabric", "tensorboard", "rich")  # modules that training imports


class HelpFormatter(argparse.RawDescriptionHelpFormatter):
    """Keeps the lines of the examples, and shows the default of every option that has one."""

    def _get_help_string(self, action: argparse.Action) -> str | None:
        default, text = action.default, action.help or ""
        is_shown = isinstance(default, (str, int, float)) and not isinstance(default, bool)
        if not is_shown or default == argparse.SUPPRESS or "(default: " in text:
            return action.help
        return f"{text} (default: %(default)s)"


class Parser(argparse.ArgumentParser):
    """A parser whose errors are one line that names the next step."""

    def error(self, message: str) -> NoReturn:
        self.exit(2, f"{self.prog}: {message}; see {self.prog} --help\n")


def add_verb(
    verbs: Verbs,
    name: str,
    summary: str,
    run: Run,
    *examples: str,
    notes: str | None = None,
    **defaults: Any,
) -> Parser:
    """Declare a verb: its one-line summary, the function that runs it, and example commands.

    `notes` end the help text; `defaults` are set on the parsed arguments.
    """
    parser = verbs.add_parser(
        name,
        help=summary,
        description=f"{summary[0].upper()}{summary[1:]}.",
        epilog="\n  ".join(["examples:", *examples]) + (f"\n\n{notes}" if notes else ""),
        formatter_class=HelpFormatter,
    )
    parser.set_defaults(run=run, parser=parser, **defaults)
    return parser


def imported(module: str, function: str, *required: str) -> Run:
    """The function that runs a verb, from a module that is imported only then.

    `required` are the modules of the extra `train` that it imports.
    """

    def run(args: argparse.Namespace) -> int:
        require(*required)
        with collection_paused():
            command: Run = getattr(importlib.import_module(f"diverset.{module}"), function)
        return command(args)

    return run


def require(*modules: str, extra: str = "train") -> None:
    """Name the missing extra before a verb starts, not in the middle of it."""
    for module in modules:
        import_extra(module, extra)
