"""Evaluations of trained runs, stored as JSON files next to their ranks."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np

from diverset.evaluation import Ranks, Report, paired_bootstrap
from diverset.evaluation.options import EvalOptions
from diverset.evaluation.run import evaluate
from diverset.reproduce.experiment import Experiment
from diverset.reproduce.runs import Failed, Run, file_name
from diverset.reproduce.variants import Variant
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
    write_durably(file, json.dumps(content, indent=2).encode())


def load_report(experiment: Experiment, runs: Sequence[Run]) -> dict[str, Any]:
    """The report of a run, or of the mean similarity of several."""
    file, _ = _files(experiment, runs)
    report: dict[str, Any] = json.loads(file.read_text(encoding="utf-8"))
    return report


def load_ranks(experiment: Experiment, runs: Sequence[Run]) -> Ranks:
    """The ranks of a run, or of the mean similarity of several."""
    _, file = _files(experiment, runs)
    with np.load(file) as arrays:
        return Ranks(**arrays)


def _files(experiment: Experiment, runs: Sequence[Run]) -> tuple[Path, Path]:
    """The files of a report and of its ranks; an ensemble is evaluated if they are missing."""
    if len(runs) == 1:
        return runs[0].report(experiment.split), runs[0].ranks(experiment.split)
    names = " ".join(run.folder.name for run in runs)
    key = hashlib.sha256(names.encode()).hexdigest()[:16]
    file = experiment.runs / "ensembles" / f"{key}-{file_name(experiment.split)}.json"
    ranks = file.with_suffix(".npz")
    if not (file.exists() and ranks.exists()):
        file.parent.mkdir(parents=True, exist_ok=True)
        save_report(evaluate_runs(experiment, runs), file, ranks)
    return file, ranks


def bootstrap_seeds(
    experiment: Experiment, first: Sequence[Variant], second: Sequence[Variant], failed: Failed
) -> list[dict[str, Any]]:
    """RSUM of `second` minus that of `first` by paired bootstrap, for every seed that both have.

    A method that is the mean similarity of several variants is given by all of them.
    """
    rows = []
    for seed in range(experiment.seeds):
        both = [[experiment.run_for(part, seed) for part in method] for method in (first, second)]
        if not any(run.folder in failed for runs in both for run in runs):
            compared = paired_bootstrap(*(load_ranks(experiment, runs) for runs in both))
            rows.append({"run_seed": seed, **asdict(compared)})
    return rows
