"""`diverset export-model`: a run's best model as a folder of its own, small enough to hand on."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import torch
import yaml

from diverset.banks import load_bank, save_bank
from diverset.config import to_dict
from diverset.data.files import write_durably
from diverset.errors import check_choice
from diverset.loading import model_folder
from diverset.model import Model
from diverset.search.calibration import load_calibration
from diverset.training.evaluating import open_recipe
from diverset.training.run import RECIPE

DTYPES = {"float32": None, "float16": torch.float16, "bfloat16": torch.bfloat16}


def export(run: str, folder: Path, dtype: str = "float16", card: str | None = None) -> Model:
    """Write model, recipe and, where they are, bank and calibration; the model as it will be read.

    The recipe says how the data is laid out, for `diverset evaluate FOLDER --data DATA`; where it
    was on the machine of the training is left out, and so are teachers.
    """
    check_choice("dtype", dtype, DTYPES)
    source = model_folder(run)
    model = Model.from_pretrained(source)
    bank = load_bank(source, model.fingerprint())
    calibration = load_calibration(source, model.fingerprint())
    recipe = open_recipe(run)
    model.below(everything=True)  # whoever loads it elsewhere is to have the same networks
    model.save_pretrained(folder, card, dtype=DTYPES[dtype])
    plain = replace(
        recipe, data=replace(recipe.data, root="."), distill=replace(recipe.distill, runs="")
    )
    write_durably(folder / RECIPE, yaml.safe_dump(to_dict(plain), sort_keys=False).encode())
    written = Model.from_pretrained(folder)
    if bank is not None:
        save_bank(folder, bank, written.fingerprint())
    if calibration is not None:
        replace(calibration, fingerprint=written.fingerprint()).save(folder)
    return written
