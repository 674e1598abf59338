"""Evaluations of trained runs, stored as JSON files next to their ranks."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from diverset.evaluation import Ranks, Report
from diverset.evaluation.options import EvalOptions
from diverset.evaluation.run import evaluate
from diverset.reproduce.experiment import Experiment
from diverset.reproduce.runs import Run
from diverset.runtime.device import resolve_device
from diverset.runtime.files import write_durably


def stored_json(file: Path, compute: Callable[[], Any]) -> Any:
    """The content of a JSON file, which is computed and written if it is missing."""
    if not file.exists():
        file.parent.mkdir(parents=True, exist_ok=True)
        write_durably(file, json.dumps(compute(), indent=2).encode())
    return json.loads(file.read_text(encoding="utf-8"))


def evaluate_runs(experiment: Experiment, runs: Sequence[Run], **options: Any) -> Report:
    """Evaluate a run, or several as an ensemble, by default on the reported split."""
    root = runs[0].recipe.data.root
    return evaluate(
        [str(run.folder) for run in runs],
        EvalOptions(**{"root": root, "split": experiment.split} | options),
        cache=experiment.cache,
        device=resolve_device(experiment.device),
    )


def save_report(report: Report, file: Path, ranks_file: Path) -> None:
    """Write the ranks first: a report that exists is complete."""
    with open(ranks_file, "wb") as stream:
        np.savez(stream, **vars(report.ranks))
    content = report.to_dict()
    content["extras"].pop("runs", None)  # absolute paths
    stored_json(file, lambda: content)


def load_ranks(file: Path) -> Ranks:
    """The ranks of a stored report."""
    with np.load(file) as arrays:
        return Ranks(**arrays)
