"""Open a run or an exported model with its recipe."""

from __future__ import annotations

from pathlib import Path

from diverset.errors import CheckpointError, OptionError
from diverset.evaluation.options import EvalOptions
from diverset.model import Model
from diverset.model.folder import CONFIG, NAMES, model_folder
from diverset.model.load import load
from diverset.recipe.config import DataConfig, Recipe
from diverset.recipe.run_folder import MODEL, RECIPE, read_recipe


def open_run(name: str, device: str = "cpu") -> tuple[Model, DataConfig]:
    """The best model of a run, or an exported model, with the data of its recipe."""
    data = open_recipe(name).data
    return load(name, device), data


def has_recipe(name: str) -> bool:
    """Whether a run, a folder of a model or a model by name says what data it was trained on."""
    folder = Path(name).expanduser()
    return (folder / RECIPE).exists() or (model_folder(name) / RECIPE).exists()


def evaluated_data(model: str | Model, options: EvalOptions) -> DataConfig:
    """The data of a model's recipe as the options say; without a recipe they must give a folder."""
    if isinstance(model, str) and has_recipe(model):
        return options.data_config(open_recipe(model).data)
    if options.root is None:
        raise OptionError(
            "a model without a recipe does not say where its data is; give --data (in Python "
            "EvalOptions(root=...))"
        )
    return options.data_config(DataConfig())


def open_recipe(name: str) -> Recipe:
    """The recipe of a run, of a model that was exported from one, or of a shipped model."""
    folder = Path(name).expanduser()
    if name in NAMES and not (folder / RECIPE).exists():  # perhaps a folder of photos
        folder = model_folder(name)
    if not (folder / RECIPE).exists():
        reason = "a model without a recipe" if (folder / CONFIG).exists() else "not a run"
        raise CheckpointError(f"{folder} has no {RECIPE} ({reason}); give the folder of a run")
    if not ((folder / MODEL / CONFIG).exists() or (folder / CONFIG).exists()):
        raise CheckpointError(f"{folder} has no model yet; train it for at least one epoch")
    return read_recipe(folder / RECIPE)
