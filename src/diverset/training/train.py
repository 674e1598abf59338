"""`diverset train`: from a recipe and its overrides to a run."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any

import torch

from diverset.config import flat_options, from_dict
from diverset.errors import OptionError, import_extra
from diverset.recipe.config import Recipe
from diverset.recipe.datasets import DatasetReader
from diverset.recipe.named import recipe_path
from diverset.recipe.run_folder import check_run, read_recipe, start_run
from diverset.recipe.splits import open_split
from diverset.runtime.device import resolve_device
from diverset.runtime.progress import Progress
from diverset.training.auxiliary_targets import open_auxiliary_targets
from diverset.training.initial_model import make_model

FABRIC_PRECISION = {"float32": "32-true", "bfloat16": "bf16-mixed", "float16": "16-mixed"}


def parse_recipe(file: str, overrides: Sequence[str]) -> Recipe:
    """A recipe, by file or name, with overrides such as `--optim.lr 1e-4 --train.seed 1`."""
    jsonargparse: Any = import_extra("jsonargparse", "train")
    # Read here, because its error for an unknown key is better than the parser's.
    stored = read_recipe(recipe_path(file))
    # The docstring under each field of a recipe is its help text.
    jsonargparse.set_parsing_settings(docstring_parse_attribute_docstrings=True)
    parser = jsonargparse.ArgumentParser(
        prog=f"diverset train {file}",
        description=stored.about or "A training run.",
        exit_on_error=False,
        allow_abbrev=False,  # --train.epoch is a misspelling, not --train.epochs
    )
    parser.add_class_arguments(Recipe)
    defaults = flat_options(stored) | {"data.sources": asdict(stored.data)["sources"]}
    parser.set_defaults(**defaults)
    try:
        parsed = parser.parse_args(list(overrides))
    except jsonargparse.ArgumentError as error:
        reason = " ".join(str(error).split())
        raise OptionError(
            f"{reason}; `diverset train {file} --options` lists all options"
        ) from error
    values: dict[str, Any] = parsed.as_dict()
    return from_dict(Recipe, values)


def train(
    recipe: Recipe,
    out: Path,
    cache: Path,
    device: str = "auto",
    processes: int = 1,
    progress: Progress | None = None,
) -> None:
    """Train a recipe into the run folder `out`, or resume the run in it.

    `cache` is the folder of the feature cache. `progress` is by default that of the terminal.
    """
    resolve_device(device)  # raises before Fabric, whose error is a traceback
    fabric_module: Any = import_extra("lightning_fabric", "train")
    from diverset.training.loop import fit

    fabric = fabric_module.Fabric(
        accelerator=device, devices=processes, precision=FABRIC_PRECISION[recipe.train.precision]
    )
    fabric.launch()
    with progress or Progress(enabled=fabric.is_global_zero) as progress:
        show = progress.update
        # The first process fills the caches; the others read them.
        with fabric.rank_zero_first():
            data, reader = recipe.data, DatasetReader(recipe.data)
            for split in (data.train, *data.validation_splits().values()):
                reader.read(split)
            check_run(out, recipe)  # before features are extracted
            torch.manual_seed(recipe.train.seed)
            model = make_model(recipe, reader)
            open_for_model = partial(
                open_split, data, model=model, cache=cache, progress=show, reader=reader
            )
            training_data = open_for_model(data.train, training=True)
            val = {name: open_for_model(split) for name, split in data.validation_splits().items()}
            targets = open_auxiliary_targets(recipe, training_data, cache, show)
        # Only now: a wrong path or option, or a missing package, must not leave a run folder.
        with start_run(out, recipe) if fabric.is_global_zero else nullcontext():
            result = fit(recipe, model, training_data, val, out, fabric, targets, progress)
    if fabric.is_global_zero:
        print(
            f"{out}: best validation RSUM {result['rsum']:.1f} after epoch {result['epoch']} of "
            f"{result['epochs']}, {result['seconds'] / 60:.1f} minutes of training"
        )
