"""`diverset export-model`: the best model of a run in a small folder of its own."""

from __future__ import annotations

from dataclasses import asdict, replace
from pathlib import Path

import torch
import yaml

from diverset.errors import check_choice
from diverset.evaluation.calibration import load_calibration
from diverset.evaluation.open_run import open_recipe
from diverset.evaluation.query_bank import load_query_bank, save_query_bank
from diverset.model import Model
from diverset.model.folder import NAMES, model_folder
from diverset.recipe.config import DataConfig
from diverset.recipe.run_folder import RECIPE
from diverset.runtime.files import write_durably

DTYPES = {"float32": None, "float16": torch.float16, "bfloat16": torch.bfloat16}


def export(run: str, folder: Path, dtype: str = "float16", card: str | None = None) -> Model:
    """Write a run's best model with its recipe and, if present, query bank and calibration.

    The recipe keeps the layout of the data, for `diverset evaluate FOLDER --data DATA`, but no
    folders of this machine: no teachers, and an initial model only if it is a shipped one. Returns
    the model as it is loaded from the folder.
    """
    check_choice("dtype", dtype, DTYPES)
    source = model_folder(run)
    model = Model.from_pretrained(source)
    bank = load_query_bank(source, model.fingerprint())
    calibration = load_calibration(source, model.fingerprint())
    recipe = open_recipe(run)
    model.save_pretrained(folder, card, dtype=DTYPES[dtype])
    initial = recipe.train.initial_model
    portable = replace(
        recipe,
        data=_without_local_folders(recipe.data),
        train=replace(recipe.train, initial_model=initial if initial in NAMES else None),
        distill=replace(recipe.distill, runs=None),
    )
    write_durably(folder / RECIPE, yaml.safe_dump(asdict(portable), sort_keys=False).encode())
    written = Model.from_pretrained(folder)
    if bank is not None:
        save_query_bank(folder, bank, written.fingerprint())
    if calibration is not None:
        replace(calibration, fingerprint=written.fingerprint()).save(folder)
    return written


def _without_local_folders(data: DataConfig) -> DataConfig:
    """Roots of several datasets become folders in the root of all."""
    sources = [
        replace(source, root=Path(source.root).name) if Path(source.root).is_absolute() else source
        for source in data.sources
    ]
    return replace(data, root=".", sources=tuple(sources))
