"""`diverset train`: from a recipe and its changes to a run."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch

from diverset.config import from_dict, to_dict
from diverset.data import Vocabulary, load_vectors
from diverset.errors import OptionError, import_extra
from diverset.features import BiGruFeatures
from diverset.model import Model
from diverset.training.bars import Bars
from diverset.training.guides import open_guides
from diverset.training.opening import open_split, read_split
from diverset.training.run import read_recipe, start_run
from diverset.training.settings import Recipe


def parse_recipe(file: str, overrides: Sequence[str]) -> Recipe:
    """A recipe with changes such as `--optim.lr 1e-4 --train.seed 1`."""
    jsonargparse: Any = import_extra("jsonargparse", "train")
    stored = read_recipe(file)  # refuses unknown keys by name
    parser = jsonargparse.ArgumentParser(
        prog=f"diverset train {file}",
        description=stored.about or "A training run.",
        exit_on_error=False,
    )
    parser.add_class_arguments(Recipe)
    parser.set_defaults(**_flat(to_dict(stored)))
    try:
        found = parser.parse_args(list(overrides))
    except jsonargparse.ArgumentError as error:
        raise OptionError(f"{error}; `diverset train {file} --help` lists all options") from error
    plain: dict[str, Any] = found.as_dict()
    return from_dict(Recipe, plain)


def train(recipe: Recipe, out: Path, cache: Path, device: str = "auto", processes: int = 1) -> None:
    """Train a recipe into a run folder, or go on with the run that is there."""
    fabric_module: Any = import_extra("lightning_fabric", "train")
    from diverset.training.loop import fit

    fabric = fabric_module.Fabric(
        accelerator=device, devices=processes, precision=recipe.train.precision
    )
    fabric.launch()
    with Bars(enabled=fabric.is_global_zero) as bars:
        # Caches are made by one process; the others read them.
        with fabric.rank_zero_first():
            if fabric.is_global_zero:
                start_run(out, recipe)
            vocabulary = _vocabulary(recipe)
            torch.manual_seed(recipe.train.seed)
            model = Model(recipe.model, vocabulary)
            _set_vectors(model, recipe)
            splits = [
                open_split(
                    recipe.data,
                    split,
                    recipe.model,
                    vocabulary,
                    cache,
                    views=recipe.data.views if split == recipe.data.train else 1,
                    progress=bars.show,
                    model=model,
                )
                for split in (recipe.data.train, recipe.data.val)
            ]
            guides = open_guides(recipe, splits[0].collection, cache, bars.show)
        found = fit(recipe, model, splits[0], splits[1], out, fabric, bars.show, guides)
    if fabric.is_global_zero:
        print(
            f"{out}: best validation RSUM {found['rsum']:.1f} after epoch {found['epoch']} of "
            f"{found['epochs']}, {found['seconds'] / 60:.1f} minutes of training"
        )


def _vocabulary(recipe: Recipe) -> Vocabulary | None:
    if recipe.model.text.kind != "bigru":
        return None
    # Captions alone: looking for every picture and indexing the regions comes later, once.
    data = replace(recipe.data, images="", regions="")
    return Vocabulary.build(read_split(data, data.train).captions, data.min_count)


def _set_vectors(model: Model, recipe: Recipe) -> None:
    features = model.text_encoder.features
    if not recipe.data.vectors or not isinstance(features, BiGruFeatures):
        return
    assert model.vocabulary is not None
    source = recipe.data.vectors
    if (Path(recipe.data.root) / source).exists():
        source = str(Path(recipe.data.root) / source)
    found = load_vectors(source, model.vocabulary, recipe.train.seed)
    features.set_words(torch.from_numpy(found.vectors))


def _flat(values: dict[str, Any], prefix: str = "") -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name, value in values.items():
        if isinstance(value, dict):
            found |= _flat(value, f"{prefix}{name}.")
        else:
            found[prefix + name] = value
    return found
