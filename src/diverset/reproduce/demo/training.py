"""Training in two stages: one vector on single situations, then both models on four.

Both models start the second stage from the weights of the first. They are trained side by side, one
process each, with half of the cores.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from diverset.errors import DiversetError
from diverset.reproduce.demo.recipe import CONTROL, SETS, first_stage, second_stage, single_vector
from diverset.reproduce.experiment import Experiment
from diverset.reproduce.runs import Run, file_name
from diverset.reproduce.train_runs import LOG, train_runs


def train_models(
    experiment: Experiment, single: Path, four: Path, single_epochs: int
) -> dict[str, Run]:
    """Train both models in two stages, on the scenes of two folders; returns their runs by name."""
    base, folder = experiment.recipe, experiment.runs
    first = Run(
        "first stage: one vector, one situation per scene",
        first_stage(single_vector(base), single, single_epochs),
        folder / "first-stage",
    )
    _train(replace(experiment, jobs=min(1, experiment.jobs)), [first])
    second = {
        name: Run(
            f"second stage: {name}, four situations per scene",
            second_stage(recipe, four, first.folder),
            folder / file_name(name),
        )
        for name, recipe in {SETS: base, CONTROL: single_vector(base)}.items()
    }
    log = second[SETS].folder / LOG
    print(f"the second stage takes a few minutes; its progress is in {log}", flush=True)
    _train(experiment, list(second.values()))
    return second


def _train(experiment: Experiment, runs: list[Run]) -> None:
    failed = train_runs(experiment, runs)
    if failed:
        run, reason = next(iter(failed.items()))
        raise DiversetError(f"the training in {run} failed: {reason}; its log is train.log there")
