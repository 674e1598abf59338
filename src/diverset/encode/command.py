"""The verb `diverset encode`."""

from __future__ import annotations

import argparse
from dataclasses import replace
from pathlib import Path

from diverset.encode.item_source import ItemSource
from diverset.encode.open_source import image_folder, split_captions, split_images, text_table
from diverset.encode.write_shards import write_shards
from diverset.errors import OptionError
from diverset.evaluation.open_run import has_recipe, open_run
from diverset.index.shards import resolve_rank
from diverset.model import Model
from diverset.model.load import load
from diverset.recipe.config import DataConfig
from diverset.recipe.datasets import read_split
from diverset.runtime.memory import tune_glibc_malloc
from diverset.runtime.progress import Progress


def encode(args: argparse.Namespace) -> int:
    """Encode what the arguments name; returns the exit code."""
    tune_glibc_malloc()  # batches of one size allocate the same large blocks again and again
    rank, world_size = resolve_rank(args.rank, args.world_size)
    model, data = open_model(args.model, args.device)
    source = _open_source(args, model, data)
    with Progress() as progress:
        write_shards(model, source, Path(args.out), rank, world_size, args.shard_size, progress)
    return 0


def open_model(name: str, device: str = "cpu") -> tuple[Model, DataConfig | None]:
    """A run or a shipped model with the configuration of its data, or a model alone."""
    return open_run(name, device) if has_recipe(name) else (load(name, device), None)


def _open_source(args: argparse.Namespace, model: Model, data: DataConfig | None) -> ItemSource:
    if bool(args.images) + bool(args.texts) + bool(args.captions or args.split) > 1:
        raise OptionError("give only one of --images, --texts, and --split (with --captions)")
    if args.images:
        return image_folder(model, Path(args.images), args.precision)
    if args.texts:
        columns = (args.text_column, args.id_column, args.metadata)
        return text_table(model, Path(args.texts), *columns, args.precision)
    if data is None:
        raise OptionError(f"{args.model} is a model without a dataset; give --images or --texts")
    data = replace(data, root=args.data) if args.data else data
    split = read_split(data, args.split or data.val)
    return (split_captions if args.captions else split_images)(model, split, args.precision)
