"""The verbs of one's own pictures: search, similar, caption, explain, status, watch, export, serve.

What they do is in `diverset.library.command` and `diverset.search.command`.
"""

from __future__ import annotations

import argparse
import importlib
from collections.abc import Callable

from diverset.cli.verb import Verbs, add_library, add_verb


def add_verbs(verbs: Verbs[argparse.ArgumentParser]) -> None:
    search = add_verb(
        verbs,
        "search",
        "find pictures by words, by a picture, or by both",
        'diverset search "a dog on the beach"\n'
        '  diverset search "a dog" --and snow --not "a person" --filter "taken >= \'2020\'"\n'
        '  diverset search "at night" --image street.jpg --open\n'
        '  diverset search "a red car" --paths | xargs -d "\\n" cp -t cars/',
    )
    search.add_argument("words", nargs="*", help="what the picture should show")
    search.add_argument("--image", default="", metavar="FILE", help="like this picture, too")
    search.add_argument(
        "--balance", type=float, default=0.5, help="of words beside --image, 0 to 1 (default: 0.5)"
    )
    search.add_argument("--and", dest="also", action="append", default=[], metavar="WORDS",
                        help="must be there as well; may be repeated")  # fmt: skip
    search.add_argument("--not", dest="without", action="append", default=[], metavar="WORDS",
                        help="should not be there; may be repeated")  # fmt: skip
    search.add_argument("--coverage", action="store_true",
                        help="rank by the element of the words that is met worst")  # fmt: skip
    search.add_argument("--weights", type=float, nargs="+", default=[],
                        help="of the elements of the words' set")  # fmt: skip
    search.add_argument("--groups", action="store_true", help="by the part that matched")
    _add_output(search)
    search.set_defaults(run=_command("search", "search"))

    similar = add_verb(
        verbs,
        "similar",
        "find pictures like one, or like one part of it",
        "diverset similar holiday.jpg\n  diverset similar holiday.jpg --part 2",
    )
    similar.add_argument("file", help="a picture, indexed or not")
    similar.add_argument("--part", type=int, help="only this element of it, from 1 (see explain)")
    similar.add_argument("--groups", action="store_true", help="by the part that matched")
    _add_output(similar)
    similar.set_defaults(run=_command("search", "similar"))

    caption = add_verb(
        verbs,
        "caption",
        "find the texts of the library nearest to a picture",
        "diverset caption holiday.jpg  (after: diverset index captions.csv)",
    )
    caption.add_argument("file", help="a picture, indexed or not")
    caption.add_argument("-n", type=int, default=5, help="how many (default: 5)")
    caption.add_argument("--json", action="store_true")
    add_library(caption)
    caption.set_defaults(run=_command("search", "caption"))

    explain = add_verb(
        verbs,
        "explain",
        "draw which part of a picture matched the words",
        'diverset explain "a dog on the beach" holiday.jpg --out why.png',
    )
    explain.add_argument("query", metavar="QUERY", help="words")
    explain.add_argument("file", help="a picture, indexed or not")
    explain.add_argument("--out", default="explained.png", help="(default: explained.png)")
    add_library(explain)
    explain.set_defaults(run=_command("search", "explain"))

    status = add_verb(verbs, "status", "what is in the library, and what is not", "diverset status")
    status.add_argument("--skipped", action="store_true", help="list skipped files and why")
    status.add_argument("--json", action="store_true")
    add_library(status)
    status.set_defaults(run=_command("library", "status"))

    watch = add_verb(
        verbs,
        "watch",
        "index folders again and again, as pictures come and go",
        "diverset watch ~/Pictures --every 30",
    )
    watch.add_argument("folders", nargs="*", metavar="FOLDER", help="(default: the library's)")
    watch.add_argument("--every", type=float, default=10, help="seconds (default: 10)")
    watch.add_argument("--model", default="", help="a run's or a model's folder")
    add_library(watch)
    watch.set_defaults(run=_command("library", "watch"))

    export = add_verb(
        verbs,
        "export",
        "write the library's sets as .npy with metadata as .parquet, or its model as ONNX",
        "diverset export my-sets\n"
        "  diverset export my-encoders --onnx\n"
        "  diverset export my-encoders --onnx --model runs/a",
    )
    export.add_argument("out", help="a new folder: img_emb/*.npy and metadata/*.parquet; with "
                        "--onnx images.onnx, texts.onnx and about.json")  # fmt: skip
    export.add_argument("--onnx", action="store_true", help="the two encoders, not the sets")
    export.add_argument("--model", default="", help="with --onnx: a run's or a model's folder "
                        "(default: the library's)")  # fmt: skip
    add_library(export)
    export.set_defaults(run=_command("library", "export"))

    serve = add_verb(
        verbs,
        "serve",
        "a page and a server to search the library with",
        "diverset serve\n  DIVERSET_TOKEN=... diverset serve --host 0.0.0.0",
    )
    serve.add_argument(
        "--host", default="127.0.0.1", help="(default: 127.0.0.1, only this machine)"
    )
    serve.add_argument("--port", type=int, default=8765, help="(default: 8765)")
    serve.add_argument("--token", default="", help="needed by others than this machine; better "
                       "given as DIVERSET_TOKEN")  # fmt: skip
    serve.add_argument("--max-megabytes", type=float, default=20, help="of an upload (default: 20)")
    serve.add_argument("--max-megapixels", type=float, default=50, help="(default: 50)")
    add_library(serve)
    serve.set_defaults(run=_command("serve", "serve"))


def _add_output(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--filter", default=None, help="over width, height, bytes, folder, name, "
                        "modified, taken: \"width >= 1000 and taken < '2020'\"")  # fmt: skip
    parser.add_argument("-n", type=int, default=20, help="how many (default: 20)")
    shape = parser.add_mutually_exclusive_group()
    shape.add_argument("--paths", action="store_true", help="only paths of what matches well")
    shape.add_argument("-0", dest="null", action="store_true",
                       help="as --paths, each ended by NUL, for xargs -0")  # fmt: skip
    shape.add_argument("--json", action="store_true")
    shape.add_argument("--open", action="store_true", help="show a page of pictures")
    add_library(parser)


def _command(package: str, name: str) -> Callable[[argparse.Namespace], int]:
    """A function of a package's module `command`, imported when the verb runs."""

    def run(given: argparse.Namespace) -> int:
        module = importlib.import_module(f"diverset.{package}.command")
        found: Callable[[argparse.Namespace], int] = getattr(module, name)
        return found(given)

    return run
