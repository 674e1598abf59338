"""Train and evaluate one run: `python -m diverset.reproduce.worker FOLDER SPLIT CACHE DEVICE`.

Steps that are already done are skipped; an interrupted training resumes from its checkpoint.
"""

from __future__ import annotations

import shutil
import sys
from dataclasses import asdict
from pathlib import Path

import torch
import yaml

from diverset.errors import DiversetError, LockedError
from diverset.evaluation.options import EvalOptions
from diverset.evaluation.run import evaluate
from diverset.recipe.run_folder import VALIDATION, VALIDATION_RANKS, read_recipe
from diverset.reproduce.reports import save_report
from diverset.reproduce.runs import Run
from diverset.runtime.device import resolve_device
from diverset.runtime.files import write_durably
from diverset.runtime.locks import file_lock
from diverset.training.train import train

JOB, LOCK = "job.yaml", "lock"
EXIT_LOCKED = 75  # EX_TEMPFAIL: another process is working on the same run


def write_job(run: Run) -> None:
    """Store the recipe that the worker is to train."""
    text = yaml.safe_dump(asdict(run.recipe), sort_keys=False)
    write_durably(run.folder / JOB, text.encode())


def work(folder: Path, split: str, cache: Path, device: str) -> None:
    """Train and evaluate the run of a folder while holding its lock."""
    with file_lock(folder / LOCK, f"another process is training {folder}; wait until it is done"):
        run = Run(folder.name, read_recipe(folder / JOB), folder)
        if not run.is_trained:
            train(run.recipe, folder, cache, device)
        if split == run.recipe.data.val and (folder / VALIDATION).exists():
            # Training has evaluated the best epoch on this split already.
            shutil.copy(folder / VALIDATION_RANKS, run.ranks(split))
            shutil.copy(folder / VALIDATION, run.report(split))
        if not run.report(split).exists():
            options = EvalOptions(root=run.recipe.data.root, split=split)
            torch.manual_seed(run.recipe.train.seed)  # random slots are drawn in evaluation, too
            report = evaluate([str(folder)], options, cache=cache, device=resolve_device(device))
            save_report(report, run.report(split), run.ranks(split))


if __name__ == "__main__":
    folder, split, cache, device = sys.argv[1:]
    try:
        work(Path(folder), split, Path(cache), device)
    except LockedError:
        sys.exit(EXIT_LOCKED)
    except (DiversetError, OSError) as error:
        sys.exit(f"{type(error).__name__}: {error}")
