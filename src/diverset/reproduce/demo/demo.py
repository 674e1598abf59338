"""The demo: the whole pipeline in a few minutes, on generated images.

Every scene shows four separate situations and every caption describes one of them, so a single
vector has to represent four meanings at once. The paper's model (sets of four) and its control (one
vector, K = 1) are trained with the same recipe and compared on unseen scenes, which then become a
library to search in.
"""

from __future__ import annotations

import os
import shlex
import shutil
import time
from collections.abc import Iterable, Mapping
from pathlib import Path

from diverset.evaluation import Report
from diverset.evaluation.calibrate import calibrate
from diverset.evaluation.options import EvalOptions
from diverset.photos.library.indexing import index_folders
from diverset.photos.library.library import Library
from diverset.recipe.splits import image_paths
from diverset.reproduce.demo.recipe import SETS, Budget, demo_experiment
from diverset.reproduce.demo.report import write_report
from diverset.reproduce.demo.result import DemoResult, compute_result
from diverset.reproduce.demo.showcase import RULE
from diverset.reproduce.demo.training import train_models
from diverset.reproduce.experiment import Experiment
from diverset.reproduce.scenes import ScenesOptions, write_scenes
from diverset.runtime.progress import Progress

ONE_SITUATION = ScenesOptions(situations=1, captions=2, size=42, variety="plain")
FOUR_SITUATIONS = ScenesOptions(
    situations=4, captions=4, size=64, variety="plain", distinct=True, held_out_size=384
)
SCENES_SEED = 1
"""The recipe was chosen on the scenes of seed 0, so the test scenes are others."""


def run_demo(folder: Path, budget: Budget | None = None) -> DemoResult:
    """Draw, train, compare, index and write the report; finished trainings are not repeated."""
    started, budget = time.monotonic(), budget or Budget()
    experiment = demo_experiment(folder, budget)
    single, four = folder / "single-scenes", folder / "scenes"
    with Progress() as progress:
        task = progress.task("drawing scenes")
        write_scenes(single, budget.single, budget.val, 0, SCENES_SEED, ONE_SITUATION, task)
        write_scenes(
            four, budget.images, budget.val, budget.test, SCENES_SEED, FOUR_SITUATIONS, task
        )
    runs = train_models(experiment, single, four, budget.single_epochs)
    result = compute_result(experiment, runs)
    print(f"\n{text_table(result.reports)}\n\nsets against one vector {result.comparison}")
    print(f"{result.showcase_line} ({RULE})\n")
    library = folder / "library"
    images = image_paths(result.encoded.split.dataset)
    count = build_library(library, folder / "photos", images, runs[SETS].folder)
    command = f"diverset serve --library {shlex.quote(str(library))}"
    minutes = (time.monotonic() - started) / 60
    page = write_report(folder / "report.html", result, facts(experiment, budget, minutes, command))
    print(f"report: {page}  ({minutes:.1f} minutes)")
    print(f"search the {count} unseen scenes in a browser: {command}")
    return result


def build_library(folder: Path, photos: Path, images: Iterable[Path], run: Path) -> int:
    """Copy images into the folder `photos`, index them with the model of a run, and count them.

    The model is calibrated on its validation split first, so that searches show probabilities. A
    library of another model is built again.
    """
    photos.mkdir(parents=True, exist_ok=True)
    for image in images:
        if not (photos / image.name).exists():
            shutil.copy(image, photos)
    calibrate(str(run), EvalOptions())
    with (
        Library.open_or_create(folder, str(run.absolute()), rebuild=True) as library,
        library.indexing_lock(),
        Progress() as progress,
    ):
        return index_folders(library, [photos], progress).total


def facts(experiment: Experiment, budget: Budget, minutes: float, command: str) -> dict[str, str]:
    """How the numbers were made, for the report."""
    epochs = experiment.recipe.train.epochs
    return {
        "data": f"{budget.single:,} training scenes with one situation, {budget.images:,} with "
        f"four; {budget.val} validation and {budget.test} test scenes",
        "models": "a CNN of five convolutions and a bi-GRU, D = 128; K = 4 slots, and K = 1 as "
        "the control",
        "first stage": f"one vector, from scratch, {budget.single_epochs} epochs on scenes with "
        "one situation; both models continue from its weights",
        "second stage": f"{epochs} epochs on scenes with four situations, the same settings and "
        "the same batches for both; the best epoch is chosen on the validation scenes",
        "time": f"{minutes:.1f} minutes on {os.cpu_count()} cores, everything included",
        "seed": str(budget.seed),
        "search these scenes": command,
    }


def text_table(reports: Mapping[str, Report]) -> str:
    """The comparison as plain text."""
    lines = ["test, percent   i2t R@1    R@5   R@10  t2i R@1    R@5   R@10    RSUM"]
    for name, report in reports.items():
        cells = [name.ljust(14)]
        for recalls in (report.image_to_text, report.text_to_image):
            cells.append(f"{recalls.r1:8.1f} {recalls.r5:6.1f} {recalls.r10:6.1f}")
        lines.append(" ".join([*cells, f"{report.rsum:7.1f}"]))
    return "\n".join(lines)
