"""The folder of a run: its recipe, its environment and its results.

recipe.yaml       the resolved recipe
environment.json  versions, machine, git commit, command
log.jsonl         one line per logged step and per validation; tensorboard/ holds the same
checkpoints/      the last two, to resume from
model/            the best model so far, as `save_pretrained` writes it
result.json       the best validation result
validation.json   report of the best epoch on the validation split, if there is one split;
                  validation.npz holds its ranks
"""

from __future__ import annotations

import platform
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Any

import torch
import yaml

from diverset.config import flat_options, from_dict
from diverset.errors import CheckpointError, OptionError
from diverset.recipe.config import Recipe
from diverset.runtime.files import write_durably, write_json
from diverset.runtime.locks import file_lock

RECIPE, ENVIRONMENT, LOG, RESULT = "recipe.yaml", "environment.json", "log.jsonl", "result.json"
CHECKPOINTS, MODEL = "checkpoints", "model"
VALIDATION, VALIDATION_RANKS = "validation.json", "validation.npz"
LOCK = "training.lock"
RESUMABLE = {
    *("data.root", "data.limit"),
    *("train.epochs", "train.patience", "train.workers", "train.checkpoint_minutes"),
}
"""Options that may differ when a run is resumed."""


def check_run(folder: Path, recipe: Recipe) -> None:
    """Raise unless the folder has no run, or one that this recipe resumes.

    A folder without checkpoints has no run: its training failed at the start.
    """
    if folder.exists() and not folder.is_dir():
        raise OptionError(f"{folder} is a file; give another folder for the run")
    if not any((folder / CHECKPOINTS).glob("*.pt")):
        return
    stored = read_recipe(folder / RECIPE)
    before, now = flat_options(stored), flat_options(recipe)
    fixed = [option for option in now if option not in RESUMABLE]
    changed = [option for option in fixed if now[option] != before[option]]
    if changed:
        raise CheckpointError(
            f"{folder} holds a run with other settings ({', '.join(changed)}); choose another "
            "--out, or use the same settings to resume it"
        )
    if recipe.train.epochs < stored.train.epochs:
        raise CheckpointError(
            f"train.epochs is {recipe.train.epochs}, but the run in {folder} has "
            f"{stored.train.epochs}; give as many to resume it, or more to continue it"
        )


@contextmanager
def start_run(folder: Path, recipe: Recipe) -> Iterator[None]:
    """Write recipe and environment; inside the block, no other process can train in the folder."""
    folder.mkdir(parents=True, exist_ok=True)
    busy = f"another training is running in {folder}; wait until it is done, or give another --out"
    with file_lock(folder / LOCK, busy):
        check_run(folder, recipe)
        text = yaml.safe_dump(asdict(recipe), sort_keys=False).encode()
        file = folder / RECIPE
        if not file.exists() or file.read_bytes() != text:
            (folder / RESULT).unlink(missing_ok=True)  # of a run with fewer epochs
            write_durably(file, text)
            write_json(folder / ENVIRONMENT, environment())
        yield


def read_recipe(file: str | Path) -> Recipe:
    """A recipe from YAML; unknown keys raise an error."""
    try:
        values = yaml.safe_load(Path(file).read_text(encoding="utf-8"))
    except OSError as error:
        raise CheckpointError(
            f"cannot read the recipe {file} ({error.strerror}); check the path"
        ) from error
    except yaml.YAMLError as error:
        raise CheckpointError(f"the recipe {file} is not YAML ({error}); correct it") from error
    return from_dict(Recipe, values or {})


def environment() -> dict[str, Any]:
    """Versions, machine, command and commit of this process."""
    return {
        "command": sys.argv,
        "started": time.strftime("%Y-%m-%d %H:%M:%S %z"),
        "python": platform.python_version(),
        "torch": torch.__version__,
        "machine": platform.machine(),
        "threads": torch.get_num_threads(),
        "gpu": torch.cuda.get_device_name() if torch.cuda.is_available() else None,
        "commit": _commit(),
    }


def _commit() -> str | None:
    git = subprocess.run(
        ["git", "rev-parse", "HEAD"], cwd=Path(__file__).parent, capture_output=True, text=True
    )
    return git.stdout.strip() or None
