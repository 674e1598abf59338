"""Verbs of the photo tool: index, search, similar, caption, explain, watch, status, ..."""

from __future__ import annotations

import argparse
import importlib

from diverset.cli.verb import Run, Verbs, add_library, add_verb, element, path
from diverset.runtime.garbage import collection_paused


def add_verbs(verbs: Verbs) -> None:
    _add_index(verbs)
    _add_search(verbs)
    _add_similar(verbs)
    _add_caption(verbs)
    _add_explain(verbs)
    _add_watch(verbs)
    _add_status(verbs)
    _add_verify(verbs)
    _add_snapshots(verbs)
    _add_serve(verbs)
    _add_export(verbs)


def _add_index(verbs: Verbs) -> None:
    parser = add_verb(
        verbs,
        "index",
        "index folders of photos and tables of texts; only changes are encoded",
        _command("library", "index"),
        "diverset index ~/Pictures ~/scans",
        "diverset index --all",
        "diverset index captions.csv --column text",
        "diverset index --forget ~/scans",
        "diverset index ~/Pictures --model openai/clip-vit-base-patch32 --library clip",
        'diverset index ~/Pictures --model "models/siglip?crops=5&prompt=a photo of {}"',
    )
    parser.add_argument(
        "sources",
        nargs="*",
        type=path,
        metavar="FOLDER_OR_TABLE",
        help="folder of photos, or table of texts (.csv, .tsv, .parquet)",
    )
    parser.add_argument(
        "--all", action="store_true", help="update all folders and tables of the library"
    )
    _add_model(parser)
    parser.add_argument("--rebuild", action="store_true", help="encode everything again")
    parser.add_argument(
        "--forget", action="store_true", help="remove the sources from the library, not from disk"
    )
    parser.add_argument("--column", help="text column of a table (default: caption, text or title)")
    parser.add_argument(
        "--workers", type=int, help="threads that read and encode (default: one per core)"
    )
    parser.add_argument("--batch", type=int, default=16, help="images per batch (default: 16)")
    add_library(parser)


def _add_search(verbs: Verbs) -> None:
    parser = add_verb(
        verbs,
        "search",
        "find photos by text, by an image, or by both",
        _command("search", "search"),
        'diverset search "a dog on the beach"',
        'diverset search "a dog" --and snow --not "a person" --filter "taken >= 2020"',
        'diverset search "at night" --image street.jpg --open',
        'diverset search "a red car" --paths | xargs -d "\\n" cp -t cars/',
        notes="exit code 1: no hit, because of the filter or --min-probability",
    )
    _add_query(parser)
    _add_output(parser)


def _add_query(parser: argparse.ArgumentParser) -> None:
    """What to search for, and how the parts of a query count."""
    parser.add_argument("text", nargs="*", help="what the photo should show")
    parser.add_argument(
        "--image",
        type=path,
        metavar="FILE",
        help="find photos that are also similar to this image",
    )
    parser.add_argument(
        "--balance",
        type=float,
        default=0.5,
        help="weight of the text relative to --image, 0 to 1 (default: 0.5)",
    )
    parser.add_argument(
        "--and",
        dest="required",
        action="append",
        default=[],
        metavar="TEXT",
        help="must be in the photo as well; can be repeated",
    )
    parser.add_argument(
        "--not",
        dest="excluded",
        action="append",
        default=[],
        metavar="TEXT",
        help="must not be in the photo; can be repeated",
    )
    parser.add_argument(
        "--coverage",
        action="store_true",
        help="rank by the element of the query that matches least",
    )
    parser.add_argument(
        "--weights",
        type=float,
        nargs="+",
        default=[],
        help="weights of the elements of the text, in order",
    )
    parser.add_argument(
        "--min-probability",
        type=float,
        metavar="P",
        help="leave out hits below this probability, 0 to 1",
    )


def _add_similar(verbs: Verbs) -> None:
    parser = add_verb(
        verbs,
        "similar",
        "find photos similar to an image, or to one element of its set",
        _command("search", "similar"),
        "diverset similar holiday.jpg",
        "diverset similar holiday.jpg --element 2",
        notes="exit code 1: no other photo passes the filter",
    )
    parser.add_argument("file", type=path, help="an image, indexed or not")
    parser.add_argument(
        "--element",
        type=element,
        metavar="N",
        help="only this element, counted from 1 (`diverset explain` draws the elements)",
    )
    _add_output(parser)


def _add_caption(verbs: Verbs) -> None:
    parser = add_verb(
        verbs,
        "caption",
        "find the texts of the library that match an image best",
        _command("search", "caption"),
        "diverset index captions.csv && diverset caption holiday.jpg",
    )
    parser.add_argument("file", type=path, help="an image, indexed or not")
    parser.add_argument("-n", type=int, default=5, help="number of texts (default: 5)")
    parser.add_argument("--json", action="store_true", help="print JSON")
    add_library(parser)


def _add_explain(verbs: Verbs) -> None:
    parser = add_verb(
        verbs,
        "explain",
        "draw which regions of an image match a text",
        _command("search", "explain"),
        'diverset explain "a dog on the beach" holiday.jpg --out explained.png',
    )
    parser.add_argument("text", metavar="TEXT", help="what the image should show")
    parser.add_argument("file", type=path, help="an image, indexed or not")
    parser.add_argument(
        "--out",
        type=path,
        default="explained.png",
        help="image to write (default: explained.png)",
    )
    add_library(parser)


def _add_watch(verbs: Verbs) -> None:
    parser = add_verb(
        verbs,
        "watch",
        "watch folders and index changes until interrupted",
        _command("library", "watch"),
        "diverset watch ~/Pictures --every 30",
    )
    parser.add_argument(
        "folders",
        nargs="*",
        type=path,
        metavar="FOLDER",
        help="folder to watch (default: those of the library)",
    )
    parser.add_argument(
        "--every", type=float, default=10, help="seconds between scans (default: 10)"
    )
    _add_model(parser)
    add_library(parser)


def _add_status(verbs: Verbs) -> None:
    parser = add_verb(
        verbs,
        "status",
        "show what the library contains and which files were skipped",
        _command("library", "status"),
        "diverset status --skipped",
    )
    parser.add_argument("--skipped", action="store_true", help="list skipped files with reasons")
    parser.add_argument("--json", action="store_true", help="print JSON")
    add_library(parser)


def _add_verify(verbs: Verbs) -> None:
    parser = add_verb(
        verbs,
        "verify",
        "check every file of the library, and repair it",
        _command("library", "verify", "maintenance"),
        "diverset verify --repair",
        notes="exit code 1: the library is damaged",
    )
    parser.add_argument(
        "--repair", action="store_true", help="keep everything that is intact, rebuild the rest"
    )
    add_library(parser)


def _add_snapshots(verbs: Verbs) -> None:
    parser = add_verb(
        verbs,
        "snapshot",
        "copy the library as it is now, also while it is in use",
        _command("library", "snapshot", "maintenance"),
        "diverset snapshot ~/backup/photos-2026-11",
    )
    parser.add_argument("target", help="a new folder")
    add_library(parser)
    parser = add_verb(
        verbs,
        "restore",
        "replace the library with a snapshot",
        _command("library", "restore", "maintenance"),
        "diverset restore ~/backup/photos-2026-11",
    )
    parser.add_argument("snapshot", help="the folder of a snapshot")
    add_library(parser)


def _add_serve(verbs: Verbs) -> None:
    parser = add_verb(
        verbs,
        "serve",
        "serve a web page and an HTTP API to search the library",
        _command("serve", "serve"),
        "diverset serve",
        "DIVERSET_TOKEN=... diverset serve --host 0.0.0.0",
        "diverset serve --access-log requests.log",
    )
    parser.add_argument(
        "--host",
        default="127.0.0.1",
        help="address to listen on (default: 127.0.0.1, this machine only)",
    )
    parser.add_argument("--port", type=int, default=8765, help="port to listen on (default: 8765)")
    tokens = parser.add_mutually_exclusive_group()
    tokens.add_argument(
        "--token",
        help="secret that clients must send (default: a new one, printed as part of the link); "
        "safer in the environment variable DIVERSET_TOKEN",
    )
    tokens.add_argument(
        "--no-token",
        action="store_true",
        help="let everybody on this machine search without a token",
    )
    parser.add_argument(
        "--access-log",
        type=path,
        metavar="FILE",
        help="append one line of JSON per request; - for stderr",
    )
    parser.add_argument("--log-queries", action="store_true", help="also log what was searched for")
    parser.add_argument(
        "--max-megabytes", type=float, default=20, help="largest upload (default: 20)"
    )
    parser.add_argument(
        "--max-megapixels", type=float, default=50, help="largest uploaded image (default: 50)"
    )
    add_library(parser)


def _add_export(verbs: Verbs) -> None:
    parser = add_verb(
        verbs,
        "export",
        "export the library's sets as .npy and .parquet, or its model as ONNX",
        _command("library", "export"),
        "diverset export my-sets",
        "diverset export my-encoders --onnx",
        "diverset export my-encoders --onnx --model runs/a",
    )
    parser.add_argument(
        "out",
        type=path,
        help="a new folder for img_emb/*.npy and metadata/*.parquet; with --onnx for images.onnx, "
        "texts.onnx and export.json",
    )
    parser.add_argument("--onnx", action="store_true", help="export both encoders instead of sets")
    parser.add_argument(
        "--model", help="with --onnx: folder of a run or a model (default: the library's model)"
    )
    add_library(parser)


def _add_model(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--model",
        help="folder of a run or a model, a shipped model, or a CLIP, SigLIP or SigLIP 2 by "
        "folder or hub name, with ?crops=5 for sets (default: that of the library, or photos)",
    )


def _add_output(parser: argparse.ArgumentParser) -> None:
    """Options of the verbs that print hits."""
    parser.add_argument(
        "--groups", action="store_true", help="group the hits by the element that matched"
    )
    parser.add_argument(
        "--filter",
        help="condition over width, height, bytes, folder, name, modified, taken: "
        "\"taken between 2020-06 and 2020-08 and folder under '~/Pictures'\"",
    )
    parser.add_argument("-n", type=int, default=20, help="number of hits (default: 20)")
    shape = parser.add_mutually_exclusive_group()
    shape.add_argument("--paths", action="store_true", help="print only the paths of the hits")
    shape.add_argument(
        "-0", dest="null", action="store_true", help="like --paths, ended by NUL, for xargs -0"
    )
    shape.add_argument("--json", action="store_true", help="print JSON")
    shape.add_argument("--open", action="store_true", help="open the hits as a web page")
    shape.add_argument(
        "--show",
        action=argparse.BooleanOptionalAction,
        help="show the hits in the terminal, if it can show images: kitty, iTerm2 or sixel "
        "(default: only in a terminal that is known to)",
    )
    add_library(parser)


def _command(package: str, name: str, module: str = "command") -> Run:
    """A function of `diverset.photos.PACKAGE.MODULE`, imported when the verb runs."""

    def run(args: argparse.Namespace) -> int:
        path = f"diverset.photos.{package}.{module}"
        with collection_paused():
            command: Run = getattr(importlib.import_module(path), name)
        return command(args)

    return run
