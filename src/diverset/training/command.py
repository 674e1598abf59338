"""`diverset train` and `diverset evaluate`: recipes and runs from the command line."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from diverset.config import to_dict
from diverset.data import Vocabulary, load_vectors
from diverset.errors import CheckpointError, OptionError, import_extra
from diverset.evaluation import (
    Member,
    Report,
    evaluate_ensemble,
    evaluate_sets,
    select_elements,
)
from diverset.features import BiGruFeatures
from diverset.model import Model
from diverset.pretrained import CONFIG
from diverset.training.bars import Bars
from diverset.training.encoding import encode_split
from diverset.training.opening import Opened, open_split, read_split
from diverset.training.run import MODEL, RECIPE, RESULT, read_recipe, start_run
from diverset.training.settings import DataConfig, Recipe


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
    from diverset.config import from_dict

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
        found = fit(recipe, model, splits[0], splits[1], out, fabric, bars.show)
    if fabric.is_global_zero:
        print(
            f"{out}: best validation RSUM {found['rsum']:.1f} after epoch {found['epoch']} of "
            f"{found['epochs']}, {found['seconds'] / 60:.1f} minutes of training"
        )


def evaluate(
    runs: Sequence[str],
    *,
    root: str = "",
    split: str = "",
    protocol: str = "full",
    similarity: str = "",
    alpha: float = 0.0,
    image_elements: Sequence[int] | None = None,
    text_elements: Sequence[int] | None = None,
    cache: Path,
    device: str = "cpu",
) -> Report:
    """Evaluate one run, or several as an ensemble by their mean similarity."""
    members: list[Member] = []
    owners: NDArray[np.int64] | None = None
    with Bars() as bars:
        for name in runs:
            model, data = open_run(name, device)
            if root:
                data = replace(data, root=root)
            opened = open_split(
                data,
                split or data.val,
                model.architecture,
                model.vocabulary,
                cache,
                progress=bars.show,
                model=model,
            )
            if owners is not None and not (owners == opened.collection.owners).all():
                raise OptionError(f"{name} was opened on other data than {runs[0]}; give one split")
            owners = opened.collection.owners
            members.append(
                _member(model, opened, bars, similarity, alpha, image_elements, text_elements)
            )
    if owners is None:
        raise OptionError("no run to evaluate; give the folder of at least one")
    extras = {"runs": list(runs), "split": split or "val"}
    if len(members) > 1:
        return evaluate_ensemble(members, owners, protocol, extras=extras)
    only = members[0]
    return evaluate_sets(
        only.images,
        only.texts,
        owners,
        only.similarity,
        protocol,
        health=model.architecture.image_set.kind != "local",
        extras=extras,
        **only.options,
    )


def open_run(name: str, device: str = "cpu") -> tuple[Model, DataConfig]:
    """The best model of a run folder, and the data it was trained on."""
    folder = Path(name)
    if not (folder / RECIPE).exists():
        hint = "it is a model without its data" if (folder / CONFIG).exists() else "no run is there"
        raise CheckpointError(f"{folder} has no {RECIPE} ({hint}); give the folder of a run")
    if not (folder / MODEL / CONFIG).exists():
        raise CheckpointError(f"{folder} has no model yet; let it train for one epoch at least")
    return Model.from_pretrained(folder / MODEL, device), read_recipe(folder / RECIPE).data


def default_cache() -> Path:
    """Where features of frozen networks are kept unless a folder is given."""
    base = os.environ.get("XDG_CACHE_HOME") or str(Path.home() / ".cache")
    return Path(base) / "diverset"


def best_result(run: Path) -> dict[str, Any]:
    """What a finished run wrote about itself."""
    found: dict[str, Any] = json.loads((run / RESULT).read_text())
    return found


def _member(
    model: Model,
    opened: Opened,
    bars: Bars,
    similarity: str,
    alpha: float,
    image_elements: Sequence[int] | None,
    text_elements: Sequence[int] | None,
) -> Member:
    images, texts = encode_split(
        model, opened, progress=lambda done, total: bars.show("encoding", done, total)
    )
    if image_elements is not None:
        images = select_elements(images, image_elements)
    if text_elements is not None:
        texts = select_elements(texts, text_elements)
    if not similarity and not alpha:
        return Member(images, texts, model.score)
    options = {"alpha": alpha or 16.0} if similarity in ("", "smooth_chamfer") else {}
    return Member(images, texts, similarity or "smooth_chamfer", options)


def _vocabulary(recipe: Recipe) -> Vocabulary | None:
    if recipe.model.text.kind != "bigru":
        return None
    captions = read_split(recipe.data, recipe.data.train).captions
    return Vocabulary.build(captions, recipe.data.min_count)


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
