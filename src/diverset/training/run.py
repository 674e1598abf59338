"""The folder of a run: what was asked, where it ran, what came out.

recipe.yaml       the resolved recipe
environment.json  versions, machine, git commit, command
log.jsonl         one line a logged step and an evaluation; tensorboard/ holds the same
checkpoints/      to resume from
model/            the best model so far, as `save_pretrained` writes it
result.json       the best validation result
"""

from __future__ import annotations

import json
import platform
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import torch
import yaml

from diverset.config import from_dict, to_dict
from diverset.data.files import write_durably
from diverset.errors import CheckpointError
from diverset.training.settings import Recipe

RECIPE, ENVIRONMENT, LOG, RESULT, MODEL = (
    "recipe.yaml",
    "environment.json",
    "log.jsonl",
    "result.json",
    "model",
)
RESUMABLE = ("root", "limit")  # data may have moved since


def start_run(folder: Path, recipe: Recipe) -> None:
    """Write what is known before the first step; an existing run must be of the same recipe."""
    folder.mkdir(parents=True, exist_ok=True)
    stored = folder / RECIPE
    if stored.exists():
        _check_same(read_recipe(stored), recipe, folder)
        return
    write_durably(stored, yaml.safe_dump(to_dict(recipe), sort_keys=False).encode())
    write_durably(folder / ENVIRONMENT, json.dumps(environment(), indent=2).encode())


def read_recipe(file: str | Path) -> Recipe:
    """A recipe from YAML; an unknown key is refused by name."""
    try:
        plain = yaml.safe_load(Path(file).read_text(encoding="utf-8"))
    except OSError as error:
        raise CheckpointError(f"cannot read the recipe {file}: {error.strerror}") from error
    except yaml.YAMLError as error:
        raise CheckpointError(f"the recipe {file} is not YAML: {error}") from error
    return from_dict(Recipe, plain or {})


def environment() -> dict[str, Any]:
    """Versions, machine and commit, for whoever wants to repeat a run."""
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


class JsonLog:
    """One JSON object a line, flushed at once, cut back to the step a run is resumed from."""

    def __init__(self, file: Path, resumed_at: int) -> None:
        self.file = file
        lines = file.read_text().splitlines() if file.exists() else []
        kept = [line for line in lines if _step(line) <= resumed_at]
        if len(kept) < len(lines):
            write_durably(file, "".join(line + "\n" for line in kept).encode())

    def write(self, **values: Any) -> None:
        with open(self.file, "a", encoding="utf-8") as file:
            file.write(json.dumps(values) + "\n")


def _step(line: str) -> int:
    try:
        return int(json.loads(line)["step"])
    except (ValueError, KeyError):
        return sys.maxsize  # a line that a kill cut short


def _check_same(stored: Recipe, given: Recipe, folder: Path) -> None:
    before, now = to_dict(stored), to_dict(given)
    for name in RESUMABLE:
        before["data"].pop(name)
        now["data"].pop(name)
    if before != now:
        changed = [
            f"{part}.{name}"
            for part, values in now.items()
            if isinstance(values, dict)
            for name, value in values.items()
            if before[part][name] != value
        ]
        raise CheckpointError(
            f"{folder} holds a run with other settings ({', '.join(changed) or 'about'}); "
            "choose another --out, or give the same ones to resume it"
        )


def _commit() -> str | None:
    found = subprocess.run(
        ["git", "rev-parse", "HEAD"], cwd=Path(__file__).parent, capture_output=True, text=True
    )
    return found.stdout.strip() or None
