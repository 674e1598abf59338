"""Verbs of the photo tool: index, search, similar, caption, explain, watch, status, ..."""

from __future__ import annotations

import argparse

from diverset.cli.options import MODEL, add_flag, add_library, count, element, path, positive
from diverset.cli.verb import Verbs, add_verb, imported


def _add_index(verbs: Verbs) -> None:
    parser = add_verb(
        verbs,
        "index",
        "index folders of photos and tables of texts; only changes are encoded",
        imported("photos.library.command", "index"),
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
    add_flag(parser, "--all", "update all folders and tables of the library")
    _add_model(parser)
    add_flag(parser, "--rebuild", "encode everything again")
    add_flag(parser, "--forget", "remove the sources from the library, not from disk")
    parser.add_argument("--column", help="text column of a table (default: caption, text or title)")
    parser.add_argument(
        "--workers", type=count, help="threads that read and encode (default: one per core)"
    )
    parser.add_argument("--batch", type=count, default=16, help="images per batch")
    add_library(parser)


def _add_search(verbs: Verbs) -> None:
    parser = add_verb(
        verbs,
        "search",
        "find photos by text, by an image, or by both",
        imported("photos.search.command", "search"),
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
        "--image", type=path, metavar="FILE", help="find photos that are also similar to this image"
    )
    parser.add_argument(
        "--balance", type=float, default=0.5, help="weight of the text relative to --image, 0 to 1"
    )
    for name, field, help in (
        ("--and", "required", "must be in the photo as well; can be repeated"),
        ("--not", "excluded", "must not be in the photo; can be repeated"),
    ):
        parser.add_argument(
            name, dest=field, action="append", default=[], metavar="TEXT", help=help
        )
    add_flag(parser, "--coverage", "rank by the element of the query that matches least")
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
        imported("photos.search.command", "similar"),
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
        imported("photos.search.command", "caption"),
        "diverset index captions.csv && diverset caption holiday.jpg",
    )
    parser.add_argument("file", type=path, help="an image, indexed or not")
    parser.add_argument("-n", type=count, default=5, help="number of texts")
    add_flag(parser, "--json", "print JSON")
    add_library(parser)


def _add_explain(verbs: Verbs) -> None:
    parser = add_verb(
        verbs,
        "explain",
        "draw which regions of an image match a text",
        imported("photos.search.command", "explain"),
        'diverset explain "a dog on the beach" holiday.jpg --out explained.png',
    )
    parser.add_argument("text", metavar="TEXT", help="what the image should show")
    parser.add_argument("file", type=path, help="an image, indexed or not")
    parser.add_argument("--out", type=path, default="explained.png", help="image to write")
    add_library(parser)


def _add_watch(verbs: Verbs) -> None:
    parser = add_verb(
        verbs,
        "watch",
        "watch folders and index changes until interrupted",
        imported("photos.library.command", "watch"),
        "diverset watch ~/Pictures --every 30",
    )
    parser.add_argument(
        "folders",
        nargs="*",
        type=path,
        metavar="FOLDER",
        help="folder to watch (default: those of the library)",
    )
    parser.add_argument("--every", type=positive, default=10, help="seconds between scans")
    _add_model(parser)
    add_library(parser)


def _add_status(verbs: Verbs) -> None:
    parser = add_verb(
        verbs,
        "status",
        "show what the library contains and which files were skipped",
        imported("photos.library.command", "status"),
        "diverset status --skipped",
    )
    add_flag(parser, "--skipped", "list skipped files with reasons")
    add_flag(parser, "--json", "print JSON")
    add_library(parser)


def _add_verify(verbs: Verbs) -> None:
    parser = add_verb(
        verbs,
        "verify",
        "check every file of the library, and repair it",
        imported("photos.library.maintenance", "verify"),
        "diverset verify --repair",
        notes="exit code 1: the library is damaged",
    )
    add_flag(parser, "--repair", "keep everything that is intact, rebuild the rest")
    add_library(parser)


def _add_snapshots(verbs: Verbs) -> None:
    parser = add_verb(
        verbs,
        "snapshot",
        "copy the library as it is now, also while it is in use",
        imported("photos.library.maintenance", "snapshot"),
        "diverset snapshot ~/backup/photos-2026-11",
    )
    parser.add_argument("target", type=path, help="a new folder")
    add_library(parser)
    parser = add_verb(
        verbs,
        "restore",
        "replace the library with a snapshot",
        imported("photos.library.maintenance", "restore"),
        "diverset restore ~/backup/photos-2026-11",
    )
    parser.add_argument("snapshot", type=path, help="the folder of a snapshot")
    add_library(parser)


def _add_serve(verbs: Verbs) -> None:
    parser = add_verb(
        verbs,
        "serve",
        "serve a web page and an HTTP API to search the library",
        imported("photos.serve.command", "serve"),
        "diverset serve",
        "DIVERSET_TOKEN=... diverset serve --host 0.0.0.0",
        "diverset serve --access-log requests.log",
    )
    parser.add_argument(
        "--host",
        default="127.0.0.1",
        help="address to listen on (default: 127.0.0.1, this machine only)",
    )
    parser.add_argument("--port", type=int, default=8765, help="port to listen on")
    tokens = parser.add_mutually_exclusive_group()
    tokens.add_argument(
        "--token",
        help="secret that clients must send (default: a new one, printed as part of the link); "
        "safer in the environment variable DIVERSET_TOKEN",
    )
    add_flag(tokens, "--no-token", "let everybody on this machine search without a token")
    parser.add_argument(
        "--access-log",
        type=path,
        metavar="FILE",
        help="append one line of JSON per request; - for stderr",
    )
    add_flag(parser, "--log-queries", "also log what was searched for")
    parser.add_argument("--max-megabytes", type=positive, default=20, help="largest upload")
    parser.add_argument(
        "--max-megapixels", type=positive, default=50, help="largest uploaded image"
    )
    add_library(parser)


def _add_export(verbs: Verbs) -> None:
    parser = add_verb(
        verbs,
        "export",
        "export the library's sets as .npy and .parquet, or its model as ONNX",
        imported("photos.library.command", "export"),
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
    add_flag(parser, "--onnx", "export both encoders instead of sets")
    parser.add_argument(
        "--model", type=path, help=f"with --onnx: {MODEL} (default: the library's model)"
    )
    add_library(parser)


def _add_model(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--model",
        type=path,
        help=f"{MODEL}, with ?crops=5 for sets (default: that of the library, or photos)",
    )


def _add_output(parser: argparse.ArgumentParser) -> None:
    """Options of the verbs that print hits."""
    add_flag(parser, "--groups", "group the hits by the element that matched")
    parser.add_argument(
        "--filter",
        help="condition over width, height, bytes, folder, name, modified, taken: "
        "\"taken between 2020-06 and 2020-08 and folder under '~/Pictures'\"",
    )
    parser.add_argument("-n", type=count, default=20, help="number of hits")
    shape = parser.add_mutually_exclusive_group()
    add_flag(shape, "--paths", "print only the paths of the hits")
    shape.add_argument(
        "-0", dest="null", action="store_true", help="like --paths, ended by NUL, for xargs -0"
    )
    add_flag(shape, "--json", "print JSON")
    add_flag(shape, "--open", "open the hits as a web page")
    shape.add_argument(
        "--show",
        action=argparse.BooleanOptionalAction,
        help="show the hits in the terminal, if it can show images: kitty, iTerm2 or sixel "
        "(default: only in a terminal that is known to)",
    )
    add_library(parser)


VERBS = (
    _add_index, _add_search, _add_similar, _add_caption, _add_explain, _add_watch, _add_status,
    _add_verify, _add_snapshots, _add_serve, _add_export,
)  # fmt: skip
