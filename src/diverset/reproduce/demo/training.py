"""Training in two stages: one vector on single situations, then both models on four.

Both models start the second stage from the weights of the first. They are trained side by side, one
process each, with half of the cores.
"""

from __future__ import annotations

from pathlib import Path

from diverset.errors import DiversetError
from diverset.recipe.config import Recipe
from diverset.recipe.named import recipe_path
from diverset.reproduce.demo.recipe import (
    CONTROL,
    SETS,
    Budget,
    demo_recipe,
    first_stage,
    second_stage,
    single_vector,
)
from diverset.reproduce.experiment import Experiment
from diverset.reproduce.runs import Run, file_name
from diverset.reproduce.train_runs import LOG, train_runs
from diverset.reproduce.variants import with_changes


def train_models(
    folder: Path, single: Path, four: Path, budget: Budget, cache: Path
) -> dict[str, Path]:
    """Train both models in two stages; returns the folders of their runs by name."""
    base = with_changes(demo_recipe(), {"train.seed": budget.seed})
    if budget.epochs is not None:
        base = with_changes(base, {"train.epochs": budget.epochs})
    first = Run(
        "first stage: one vector, one situation per scene",
        first_stage(single_vector(base), single, budget.single_epochs),
        folder / "first-stage",
    )
    _train(base, [first], folder, cache, min(1, budget.jobs))
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
    _train(base, list(second.values()), folder, cache, budget.jobs)
    return {name: run.folder for name, run in second.items()}


def _train(recipe: Recipe, runs: list[Run], folder: Path, cache: Path, jobs: int) -> None:
    experiment = Experiment(
        recipe_file=recipe_path("demo"),
        overrides=(),
        recipe=recipe,
        runs=folder,
        out=folder,
        cache=cache,
        split=recipe.data.val,
        jobs=jobs,
    )
    failed = train_runs(experiment, runs)
    if failed:
        run, reason = next(iter(failed.items()))
        raise DiversetError(f"the training in {run} failed: {reason}; its log is train.log there")
