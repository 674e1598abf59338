"""One run from its folder: train it, or go on with it, then evaluate it; what is there stays.

Started by the runner as `python -m diverset.analysis.worker FOLDER ...`, one process a run. It
does not know of rows, studies or other runs.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

import numpy as np
import torch
import yaml

from diverset.analysis.bench import Run
from diverset.config import to_dict
from diverset.data.files import write_durably
from diverset.errors import DiversetError, OptionError
from diverset.evaluation import Ranks, Report
from diverset.training.command import train
from diverset.training.evaluating import Asked, evaluate
from diverset.training.run import read_recipe

ASKED = "asked.yaml"


def ask(run: Run) -> None:
    """Write down what a worker is to do."""
    run.folder.mkdir(parents=True, exist_ok=True)
    plain = yaml.safe_dump(to_dict(run.recipe), sort_keys=False)
    write_durably(run.folder / ASKED, plain.encode())


def work(folder: Path, split: str, store: Path, device: str) -> None:
    """Train and evaluate as far as that has not been done."""
    run = Run(folder.name, read_recipe(folder / ASKED), folder)
    if not run.trained:
        train(run.recipe, folder, store, device)
    if not run.report(split).exists():
        asked = Asked(root=run.recipe.data.root, split=split)
        on = encoding_device(device)
        torch.manual_seed(run.recipe.train.seed)  # random slots are drawn in evaluation, too
        keep_report(
            evaluate([str(folder)], asked, cache=store, device=on),
            run.report(split),
            run.ranks(split),
        )


def keep_report(report: Report, file: Path, ranks_file: Path) -> None:
    """Ranks first: a report that is there is complete."""
    if report.ranks is None:
        raise OptionError(f"protocol {report.protocol} keeps no ranks; use full")
    ranks = report.ranks
    with open(ranks_file, "wb") as stream:
        np.savez(
            stream,
            image_to_text=ranks.image_to_text,
            text_to_image=ranks.text_to_image,
            owners=ranks.owners,
        )
    plain = report.to_dict()
    plain["extras"].pop("runs", None)  # paths of this machine
    write_durably(file, json.dumps(plain, indent=2).encode())


def stored_ranks(file: Path) -> Ranks:
    """The ranks that were kept beside a report."""
    with np.load(file) as arrays:
        return Ranks(arrays["image_to_text"], arrays["text_to_image"], arrays["owners"])


def encoding_device(device: str) -> str:
    """Training chooses "auto" by itself; evaluation wants a name."""
    if device != "auto":
        return device
    return "cuda" if torch.cuda.is_available() else "cpu"


if __name__ == "__main__":
    folder, split, store, device = sys.argv[1:]
    try:
        work(Path(folder), split, Path(store), device)
    except (DiversetError, OSError) as error:
        sys.exit(f"{type(error).__name__}: {error}")
