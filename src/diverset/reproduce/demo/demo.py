"""The demo: the whole pipeline in a few minutes, on generated images.

Every scene shows four separate situations and every caption describes one of them, so a single
vector has to represent four meanings at once. The paper's model (sets of four) and its control (one
vector, K = 1) are trained with the same recipe and compared on unseen scenes, which then become a
library to search in.
"""

from __future__ import annotations

import os
import shlex
import time
from collections.abc import Mapping
from pathlib import Path

from diverset.evaluation import Report
from diverset.reproduce.demo.data import draw_data
from diverset.reproduce.demo.library import build_library
from diverset.reproduce.demo.recipe import SETS, Budget, demo_recipe
from diverset.reproduce.demo.report import write_report
from diverset.reproduce.demo.result import DemoResult, compute_result
from diverset.reproduce.demo.showcase import RULE
from diverset.reproduce.demo.training import train_models
from diverset.runtime.progress import Progress


def run_demo(folder: Path, budget: Budget | None = None) -> DemoResult:
    """Draw, train, compare, index and write the report; finished trainings are not repeated."""
    started, budget, cache = time.monotonic(), budget or Budget(), folder / "cache"
    with Progress() as progress:
        single, four = draw_data(folder, budget, progress)
    runs = train_models(folder, single, four, budget, cache)
    result = compute_result(runs, cache)
    print(f"\n{text_table(result.reports)}\n\nsets against one vector {result.comparison}")
    print(f"{result.showcase_line} ({RULE})\n")
    library = folder / "library"
    assert result.split.dataset.image_paths is not None
    count = build_library(library, folder / "photos", result.split.dataset.image_paths, runs[SETS])
    command = f"diverset serve --library {shlex.quote(str(library))}"
    minutes = (time.monotonic() - started) / 60
    page = write_report(folder / "report.html", result, facts(budget, minutes, command))
    print(f"report: {page}  ({minutes:.1f} minutes)")
    print(f"search the {count} unseen scenes in a browser: {command}")
    return result


def facts(budget: Budget, minutes: float, command: str) -> dict[str, str]:
    """How the numbers were made, for the report."""
    recipe = demo_recipe()
    epochs = budget.epochs or recipe.train.epochs
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
    head = f"{'test, percent':14} {'i2t R@1':>8} {'R@5':>6} {'R@10':>6} {'t2i R@1':>8} {'R@5':>6}"
    lines = [f"{head} {'R@10':>6} {'RSUM':>7}"]
    for name, report in reports.items():
        i2t, t2i = report.image_to_text, report.text_to_image
        cells = (
            f"{i2t.r1:8.1f} {i2t.r5:6.1f} {i2t.r10:6.1f} {t2i.r1:8.1f} {t2i.r5:6.1f} {t2i.r10:6.1f}"
        )
        lines.append(f"{name:14} {cells} {report.rsum:7.1f}")
    return "\n".join(lines)
