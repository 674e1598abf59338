"""Evaluations of several runs together, by their mean similarity; stored with the runs."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from pathlib import Path

from diverset.evaluation import Ranks
from diverset.recipe.run_folder import RESULT
from diverset.reproduce.experiment import Experiment
from diverset.reproduce.reports import evaluate_runs, load_ranks, save_report
from diverset.reproduce.results import Result, report_metrics
from diverset.reproduce.runs import Run, file_name
from diverset.reproduce.variants import Variant

SIZE = 2  # as in the paper


def ensemble(
    experiment: Experiment, variant: Variant, failed: Mapping[Path, str]
) -> dict[str, float]:
    """Recalls of the mean similarity of a variant's first two seeds; empty if there are fewer."""
    runs = experiment.runs_for([variant])[:SIZE]
    if len(runs) < SIZE or any(run.folder in failed for run in runs):
        return {}
    return _metrics(experiment, runs)


def mean_result(
    experiment: Experiment, name: str, variants: Sequence[Variant], failed: Mapping[Path, str]
) -> Result:
    """A method that is the mean similarity of others, trained with the same seed."""
    values: dict[str, list[float]] = {}
    folders: list[str] = []
    for runs in _by_seed(experiment, variants, failed).values():
        folders += [run.folder.name for run in runs]
        results = [json.loads((run.folder / RESULT).read_text("utf-8")) for run in runs]
        minutes = sum(result["seconds"] for result in results) / 60
        for metric, number in ({"minutes": minutes} | _metrics(experiment, runs)).items():
            values.setdefault(metric, []).append(number)
    return Result(name, values, runs=folders)


def mean_ranks(
    experiment: Experiment, variants: Sequence[Variant], failed: Mapping[Path, str]
) -> dict[int, Ranks]:
    """By seed, the ranks of the mean similarity of several variants, or of a single one."""
    ranks = {}
    for seed, runs in _by_seed(experiment, variants, failed).items():
        file = runs[0].ranks(experiment.split)
        if len(runs) > 1:
            file = _evaluate(experiment, runs).with_suffix(".npz")
        ranks[seed] = load_ranks(file)
    return ranks


def _by_seed(
    experiment: Experiment, variants: Sequence[Variant], failed: Mapping[Path, str]
) -> dict[int, list[Run]]:
    """The runs of every seed of which none failed."""
    runs = {
        seed: [experiment.run_for(variant, seed) for variant in variants]
        for seed in range(experiment.seeds)
    }
    return {
        seed: of_seed
        for seed, of_seed in runs.items()
        if not any(run.folder in failed for run in of_seed)
    }


def _metrics(experiment: Experiment, runs: Sequence[Run]) -> dict[str, float]:
    report = json.loads(_evaluate(experiment, runs).read_text(encoding="utf-8"))
    return {name: number for name, number in report_metrics(report).items() if number is not None}


def _evaluate(experiment: Experiment, runs: Sequence[Run]) -> Path:
    """File of the report; the ranks are in an .npz file of the same name."""
    names = " ".join(run.folder.name for run in runs)
    key = hashlib.sha256(names.encode()).hexdigest()[:16]
    file = experiment.runs / "ensembles" / f"{key}-{file_name(experiment.split)}.json"
    ranks = file.with_suffix(".npz")
    if not (file.exists() and ranks.exists()):
        file.parent.mkdir(parents=True, exist_ok=True)
        file.unlink(missing_ok=True)
        save_report(evaluate_runs(experiment, runs), file, ranks)
    return file
