"""The demo: the whole pipeline in a few minutes, on generated images.

Every image shows four separate situations and every caption describes one of them, so a single
vector has to represent four meanings at once. The paper's model (sets of four) and its control (one
vector, K = 1) are trained with the same recipe and compared on unseen images.
"""

from __future__ import annotations

import time
from dataclasses import replace
from pathlib import Path

from diverset.evaluation import Report
from diverset.evaluation.open_run import open_run
from diverset.evaluation.options import EvalOptions
from diverset.evaluation.run import evaluate
from diverset.recipe.splits import open_split
from diverset.reproduce.demo.recipe import scenes_recipe, single_vector
from diverset.reproduce.demo.report import write_report
from diverset.reproduce.scenes import write_default_scenes
from diverset.reproduce.scenes.dataset import DEFAULT_TRAIN
from diverset.runtime.progress import Progress
from diverset.training.train import train

SETS, CONTROL = "sets of 4", "one vector"


def run_demo(
    folder: Path, seed: int = 0, epochs: int | None = None, images: int = DEFAULT_TRAIN
) -> dict[str, Report]:
    """Draw, train, compare and write the report; finished steps are not repeated."""
    started = time.monotonic()
    data, cache = folder / "scenes", folder / "cache"
    with Progress() as progress:
        write_default_scenes(data, images, progress.task("drawing images"))
    recipe = scenes_recipe()
    recipe = replace(
        recipe,
        data=replace(recipe.data, root=str(data)),
        train=replace(recipe.train, seed=seed, epochs=epochs or recipe.train.epochs),
    )
    reports: dict[str, Report] = {}
    for name, variant in {SETS: recipe, CONTROL: single_vector(recipe)}.items():
        print(f"training: {name}", flush=True)
        run = folder / name.replace(" ", "-")
        train(variant, run, cache, "cpu")
        reports[name] = evaluate([str(run)], EvalOptions(split="test"), cache=cache)
    table = text_table(reports)
    print(f"\n{table}\n")
    model, config = open_run(str(folder / SETS.replace(" ", "-")))
    split = open_split(config, "test", model, cache)
    page = write_report(folder / "report.html", model, split, table)
    print(f"report: {page}  ({(time.monotonic() - started) / 60:.1f} minutes)")
    return reports


def text_table(reports: dict[str, Report]) -> str:
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
