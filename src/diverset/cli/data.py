"""The verb `diverset data`."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from diverset.cli.options import add_data_options, add_flag, path
from diverset.cli.verb import Verbs, add_verb, require
from diverset.errors import DataError, OptionError

if TYPE_CHECKING:
    from diverset.recipe.config import DataConfig


def add_data(verbs: Verbs) -> None:
    parser = add_verb(
        verbs,
        "data",
        "show what a dataset or the data of a recipe holds, and check its images",
        _run,
        "diverset data flickr8k_minilm --data.root flickr8k",
        "diverset data flickr8k --quick",
        "diverset data my-data/captions.csv --images photos",
        "diverset data coco --file captions_train2014.json,captions_val2014.json \\",
        "    --images images --split coco_train_ids.npy",
        notes="exit code 1: image files are missing or broken, or a split cannot be read",
        takes_overrides=True,
    )
    parser.add_argument(
        "source",
        type=path,
        metavar="RECIPE_OR_DATA",
        help="a YAML file, the name of a recipe, a caption file or a folder",
    )
    group = parser.add_argument_group("data that is not from a recipe")
    add_data_options(group)
    group.add_argument("--split", help="name of the split (default: all of them)")
    add_flag(parser, "--quick", "do not decode the images")
    add_flag(parser, "--json", "print JSON, with all file names")


def _run(args: argparse.Namespace) -> int:
    import json
    from dataclasses import asdict

    from diverset.recipe.datasets import DatasetReader
    from diverset.recipe.summary import SplitSummary, summarize
    from diverset.runtime.progress import Progress

    data, splits = _resolve_data(args)
    reader = DatasetReader(data, missing="keep")
    summaries: dict[str, SplitSummary] = {}
    errors: dict[str, DataError] = {}
    with Progress() as progress:
        for split in splits:
            try:
                dataset = reader.read(split)
            except DataError as error:  # the other splits are still worth showing
                errors[split] = error
            else:
                summaries[split] = summarize(dataset, None if args.quick else progress)
    if not summaries:
        raise next(iter(errors.values()))
    if args.json:
        values = {split: asdict(summary) for split, summary in summaries.items()}
        print(json.dumps(values | {k: {"error": str(v)} for k, v in errors.items()}, indent=2))
    else:
        for split, content in (summaries | errors).items():
            print(f"{split}\n{content}" if split in summaries else f"{split}\n  error: {content}")
    damaged = any(each.missing_files or each.broken_files for each in summaries.values())
    return int(damaged or bool(errors))


def _resolve_data(args: argparse.Namespace) -> tuple[DataConfig, list[str]]:
    """The data that the options of `diverset data` describe, and the names of its splits."""
    from diverset.recipe.datasets import recipe_splits
    from diverset.recipe.detect import detect_dataset, file_splits
    from diverset.recipe.named import named_recipes

    source = Path(args.source)
    is_named = not source.exists() and args.source in named_recipes()
    if is_named or source.suffix in (".yaml", ".yml"):
        require("yaml")
        from diverset.reproduce.runs import check_scenes
        from diverset.training.train import parse_recipe

        if args.format or args.file or args.images:
            args.parser.error("a recipe takes --data.format, --data.file and --data.images")
        data = parse_recipe(args.source, args.overrides).data
        check_scenes(data)
        return data, [args.split] if args.split else recipe_splits(data)
    if args.overrides:
        args.parser.error(f"unrecognized arguments: {' '.join(args.overrides)}")
    if not source.exists():
        raise OptionError(
            f"there is neither a recipe nor a file or folder {source}; check the name, or give one "
            f"of the recipes: {', '.join(named_recipes())}"
        )
    data = detect_dataset(source, format=args.format, file=args.file, images=args.images)
    return data, [args.split] if args.split else file_splits(data)
