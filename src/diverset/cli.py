"""The command line: one sub-command a verb, errors in one line.

Verbs import what they need when they run, so that `--help` answers at once.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

from diverset.errors import DiversetError


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a verb; a mistake of the user's ends with a message and status 2."""
    parser = _parser()
    given = parser.parse_args(arguments)
    try:
        status: int = given.run(given)
        return status
    except DiversetError as error:
        print(f"diverset {given.verb}: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("stopped", file=sys.stderr)
        return 130


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="diverset",
        description="Find pictures by words and words by pictures, with sets of embeddings.",
    )
    parser.add_argument("--version", action="store_true", help="print the version and leave")
    parser.set_defaults(run=_version_or_help(parser), verb="")
    verbs = parser.add_subparsers(title="verbs", metavar="VERB", dest="verb")

    demo = _verb(verbs, "demo", "encode, score and print one small worked example", "diverset demo")
    demo.set_defaults(run=_demo)

    reference = _verb(
        verbs,
        "import-reference",
        "turn a checkpoint of the paper's released code into a diverset model",
        "diverset import-reference model_best.pth.tar coco_vocab.json models/coco",
    )
    reference.add_argument("checkpoint", help="*.pth.tar: region features and bi-GRU")
    reference.add_argument("vocabulary", help="the vocabulary it was trained with, JSON or pickle")
    reference.add_argument("folder", help="where to write the model")
    reference.add_argument(
        "--heads", type=int, default=4, help="attention heads, not told by the file (default: 4)"
    )
    reference.set_defaults(run=_import_reference)
    return parser


def _verb(
    verbs: argparse._SubParsersAction[argparse.ArgumentParser], name: str, does: str, example: str
) -> argparse.ArgumentParser:
    return verbs.add_parser(
        name,
        help=does,
        description=does[0].upper() + does[1:] + ".",
        epilog=f"example:\n  {example}",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )


def _version_or_help(parser: argparse.ArgumentParser):  # type: ignore[no-untyped-def]
    def run(given: argparse.Namespace) -> int:
        if given.version:
            from diverset import __version__

            print(__version__)
            return 0
        parser.print_help()
        return 2

    return run


def _demo(given: argparse.Namespace) -> int:
    from diverset.demo import run

    run()
    return 0


def _import_reference(given: argparse.Namespace) -> int:
    from diverset.model import Model

    model = Model.from_reference(given.checkpoint, given.vocabulary, given.heads)
    model.save_pretrained(given.folder)
    chosen = model.architecture
    print(
        f"{given.folder}: K = {chosen.image_set.size} and {chosen.text_set.size}, "
        f"D = {chosen.dim}, T = {chosen.image_set.iterations}, alpha = "
        f"{chosen.similarity.alpha:g}, {chosen.text.vocabulary_size} words, "
        f"fingerprint {model.fingerprint()}"
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
