"""Options that several verbs have, and the types of options."""

from __future__ import annotations

import argparse
import math
import os

from diverset.photos.element_numbers import element_index
from diverset.runtime.folders import user_cache_folder

MODEL = (
    "folder of a run or a model, a shipped model (photos), or a CLIP or SigLIP by folder or hub "
    "name"
)


def add_flag(parser: argparse._ActionsContainer, name: str, help: str) -> None:
    parser.add_argument(name, action="store_true", help=help)


def add_library(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--library",
        type=path,
        help="folder of the library (default: ~/.local/share/diverset/default)",
    )


def add_data_options(group: argparse._ActionsContainer) -> None:
    """The options that describe a dataset besides its folder."""
    group.add_argument("--format", help="karpathy, coco, precomp or table (default: by file name)")
    group.add_argument(
        "--file",
        help="caption file in the folder; separate several by commas (default: the only one)",
    )
    group.add_argument(
        "--images",
        type=path,
        metavar="FOLDER",
        help="folder of the images, in the folder of the data (default: images)",
    )


def add_cache(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--cache",
        type=path,
        default=str(user_cache_folder()),
        help="folder for cached features of frozen backbones",
    )


def add_device(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--device", default="auto", help="cpu, cuda, ... (default: auto, a GPU if there is one)"
    )


def add_precision(parser: argparse.ArgumentParser, help: str) -> None:
    choices = ("float32", "bfloat16")
    parser.add_argument("--precision", default="float32", choices=choices, help=help)


def add_rank(parser: argparse.ArgumentParser) -> None:
    """The options that split work over processes."""
    parser.add_argument(
        "--rank", type=int, help="number of this process, from 0 (default: RANK, or 0)"
    )
    parser.add_argument(
        "--world-size", type=int, help="number of processes (default: WORLD_SIZE, or 1)"
    )


def path(text: str) -> str:
    """A path option with `~` expanded, also in `--out=~/runs/a`, which a shell does not expand."""
    return os.path.expanduser(text)


def count(text: str) -> int:
    """An option that is a whole number above 0."""
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number above 0")
    return int(text)


def positive(text: str) -> float:
    """An option that is a number above 0."""
    try:
        value = float(text)
    except ValueError:
        value = 0.0
    if not 0 < value < math.inf:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number above 0")
    return value


def element(text: str) -> int:
    """Index of an element in Python, from 0, of its number on the command line, from 1.

    >>> element("2")
    1
    """
    return element_index(count(text))
