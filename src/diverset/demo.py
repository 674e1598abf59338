"""`diverset demo`: the whole way in a few minutes, on pictures that it draws itself.

Every picture holds four separate situations and every caption tells of one of them, so a single
vector has to stand for four meanings at once. The paper's model (sets of four) and its control
(one vector, K = 1) are trained under one recipe, compared on pictures neither has seen, and the
report shows what each slot looked at.
"""

from __future__ import annotations

import time
from dataclasses import replace
from pathlib import Path

from diverset.config import ImageConfig, ModelConfig, SetConfig, TextConfig
from diverset.data.scenes import ScenesOptions, write_scenes
from diverset.demo_report import write_report
from diverset.evaluation import Report
from diverset.training.bars import Bars
from diverset.training.command import train
from diverset.training.evaluating import Asked, evaluate, open_run
from diverset.training.opening import open_split
from diverset.training.settings import DataConfig, LossConfig, OptimConfig, Recipe, TrainConfig

SCENES = ScenesOptions(size=96, variety="medium")
TRAIN, VAL, TEST = 2000, 200, 500


def scenes_recipe() -> Recipe:
    """The recipe of recipes/scenes.yaml, here because an installed package has no such folder."""
    sets = SetConfig(size=4, inner_width=128, dropout=0.0)
    return Recipe(
        about="scenes: pictures drawn from a seed, small CNN and bi-GRU from scratch, sets of 4",
        model=ModelConfig(
            dim=128,
            image=ImageConfig(
                kind="convolution",
                backbone="small_cnn",
                backbone_size=64,
                trained_blocks=-1,
                input_width=256,
                dropout=0.0,
            ),
            text=TextConfig(kind="bigru", input_width=128, dropout=0.0),
            image_set=sets,
            text_set=sets,
        ),
        data=DataConfig(
            format="karpathy", file="dataset_scenes.json", images="images", min_count=1
        ),
        loss=LossConfig(kind="contrastive", temperature=0.05),
        optim=OptimConfig(lr=2e-3, image_backbone_scale=1.0, warmup_steps=50),
        train=TrainConfig(epochs=10, batch_size=32),
    )


def single_vector(recipe: Recipe) -> Recipe:
    """The control: everything the same but K = 1."""
    model = recipe.model
    model = replace(
        model,
        image_set=replace(model.image_set, size=1),
        text_set=replace(model.text_set, size=1),
    )
    return replace(recipe, about=f"{recipe.about} (control: K = 1)", model=model)


def run(folder: Path, seed: int = 0, epochs: int = 0, pictures: int = TRAIN) -> dict[str, Report]:
    """Draw, train, compare and write the report; what is there already is not done again."""
    started = time.monotonic()
    data = folder / "scenes"
    with Bars() as bars:
        write_scenes(
            data,
            train=pictures,
            val=VAL,
            test=TEST,
            options=SCENES,
            progress=lambda done, total: bars.show("drawing pictures", done, total),
        )
    sets = scenes_recipe()
    sets = replace(
        sets,
        data=replace(sets.data, root=str(data)),
        train=replace(sets.train, seed=seed, epochs=epochs or sets.train.epochs),
    )
    recipes = {"sets of 4": sets, "one vector": single_vector(sets)}
    reports: dict[str, Report] = {}
    for name, recipe in recipes.items():
        out = folder / name.replace(" ", "-")
        print(f"training: {name}", flush=True)
        train(recipe, out, folder / "cache", "cpu")
        reports[name] = evaluate([str(out)], Asked(split="test"), cache=folder / "cache")
    print(f"\n{table(reports)}\n")
    page = _report(folder, sets, reports)
    print(f"report: {page}  ({(time.monotonic() - started) / 60:.1f} minutes)")
    return reports


def table(reports: dict[str, Report]) -> str:
    """The comparison as plain text."""
    head = f"{'test, percent':14} {'i2t R@1':>8} {'R@5':>6} {'R@10':>6} {'t2i R@1':>8} {'R@5':>6}"
    lines = [f"{head} {'R@10':>6} {'RSUM':>7}"]
    for name, report in reports.items():
        to_text, to_image = report.image_to_text, report.text_to_image
        numbers = [to_text.r1, to_text.r5, to_text.r10, to_image.r1, to_image.r5, to_image.r10]
        cells = "".join(
            f" {value:{width}.1f}" for value, width in zip(numbers, (8, 6, 6, 8, 6, 6), strict=True)
        )
        lines.append(f"{name:14}{cells} {report.rsum:7.1f}")
    return "\n".join(lines)


def _report(folder: Path, recipe: Recipe, reports: dict[str, Report]) -> Path:
    model, data = open_run(str(folder / "sets-of-4"))
    split = open_split(
        data, "test", model.architecture, model.vocabulary, folder / "cache", model=model
    )
    return write_report(folder / "report.html", model, split, table(reports))
