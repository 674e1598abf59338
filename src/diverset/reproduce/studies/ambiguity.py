"""Not in the paper: sets against one vector as images become more ambiguous.

Images are collages of n photographs, each caption describes one of them (`reproduce.collages`).
"""

from __future__ import annotations

from pathlib import Path
from statistics import fmean
from typing import Any

from diverset.data import CaptionDataset
from diverset.errors import OptionError
from diverset.recipe.datasets import DatasetReader
from diverset.reproduce.claims import Claim, decide
from diverset.reproduce.collages import COMPLETE, FILE, IMAGES, draw_images, write_captions
from diverset.reproduce.experiment import Experiment
from diverset.reproduce.page import Page
from diverset.reproduce.plots import BLUE, GREEN, GREY, ORANGE, new_figure, save_figure
from diverset.reproduce.reports import bootstrap_seeds
from diverset.reproduce.results import collect_result
from diverset.reproduce.runs import Failed
from diverset.reproduce.scenes import SCENES_FILE
from diverset.reproduce.study import Study
from diverset.reproduce.tables import RSUM, VARIANCES, bootstrap_table, result_table
from diverset.reproduce.variants import Variant, both_sets
from diverset.runtime.progress import Progress

TITLE = "Sets against one vector on ambiguous images"
SIZES = {1: (1, 4), 2: (1, 4), 4: (1, 2, 4, 8), 9: (1, 4)}
"""For each number of photographs in a collage the numbers of elements of a set."""
AMBIGUOUS, LARGE = 2, 4
"""From these numbers of photographs and elements on, sets are claimed to win."""
VAL = "val"
"""Name of the evaluated split of collages."""


def check(experiment: Experiment) -> None:
    data = experiment.recipe.data
    if data.images is None or data.sources or data.file == SCENES_FILE:
        raise OptionError(
            f"{experiment.name} does not read a folder of photographs, to make collages of; "
            "give a recipe such as flickr8k_minilm.yaml"
        )
    if experiment.split != VAL:
        raise OptionError(
            f"split is {experiment.split!r}; collages are made of photographs for training and "
            f"validation only, so give --split {VAL}"
        )


def variant_name(count: int, size: int) -> str:
    return f"n = {count}, K = {size}"


def variants(experiment: Experiment) -> list[Variant]:
    """One variant per number of photographs and set size; captions are written if missing."""
    return [_variant(experiment, count, size) for count in SIZES for size in SIZES[count]]


def _variant(experiment: Experiment, count: int, size: int) -> Variant:
    folder = _collage_folder(experiment, count)
    if not (folder / FILE).exists():
        write_captions(folder, _photos(experiment, captions_only=True), count)
    data = {"root": str(folder), "file": FILE, "images": IMAGES, "format": "karpathy"}
    splits = {"train": "train", "val": VAL, "test": VAL}
    changes = {f"data.{name}": value for name, value in (data | splits).items()}
    return Variant(variant_name(count, size), changes | both_sets(size=size))


def prepare(experiment: Experiment) -> None:
    """Draw the collages."""
    variants(experiment)  # writes the captions
    folders = [_collage_folder(experiment, count) for count in SIZES]
    missing = [folder for folder in folders if not (folder / COMPLETE).exists()]
    if missing:
        photos = _photos(experiment)
        with Progress() as progress:
            for folder in missing:
                draw_images(folder, photos, progress.task(f"drawing {folder.name}"))


def _collage_folder(experiment: Experiment, count: int) -> Path:
    limit = experiment.recipe.data.limit
    name = f"{experiment.dataset}-{count}" + (f"-limit-{limit}" if limit else "")
    return experiment.runs / "collages" / name


def _photos(experiment: Experiment, captions_only: bool = False) -> dict[str, CaptionDataset]:
    data = experiment.recipe.data
    reader = DatasetReader(data, captions_only)
    return {"train": reader.read(data.train), "val": reader.read(data.val)}


def page(experiment: Experiment, failed: Failed) -> Page:
    results = [collect_result(experiment, variant, failed) for variant in variants(experiment)]
    compared = {
        (count, size): bootstrap_seeds(
            experiment,
            [_variant(experiment, count, 1)],
            [_variant(experiment, count, size)],
            failed,
        )
        for count in SIZES
        for size in SIZES[count][1:]
    }
    named = {variant_name(*key): seeds for key, seeds in compared.items()}
    return Page(
        TITLE,
        "Not in the paper. Each image is a collage of n photographs; each of its captions "
        "describes one of them. Each validation photograph is in one collage, with all its "
        "captions, so the number of images shrinks as n grows and RSUM compares within one n "
        "only. The bootstrap compares sets with one vector (K = 1) of the same seed.",
        tables=[
            result_table(results, (RSUM, *VARIANCES)),
            bootstrap_table("sets", named, "RSUM of sets minus K = 1"),
        ],
        verdicts=[decide(claim, results) for claim in _claims()],
        plots=_plot(experiment, compared),
        results=results,
        numbers={"paired_bootstrap": named},
    )


def _claims() -> list[Claim]:
    return [
        Claim(
            f"sets of {size} beat one vector on collages of {count}",
            (variant_name(count, size),),
            (variant_name(count, 1),),
        )
        for count in SIZES
        for size in SIZES[count]
        if count >= AMBIGUOUS and size >= LARGE
    ]


def _plot(
    experiment: Experiment, compared: dict[tuple[int, int], list[dict[str, Any]]]
) -> list[str]:
    figure, (axes,) = new_figure()
    sizes = sorted({size for _, size in compared})
    for size, colour in zip(sizes, (GREEN, BLUE, ORANGE), strict=False):
        points = []
        for position, count in enumerate(SIZES):
            for seed in compared.get((count, size), ()):
                shift = 0.07 * (seed["run_seed"] - (experiment.seeds - 1) / 2)
                x, y = position + shift + 0.25 * (sizes.index(size) - 1), seed["difference"]
                error = [[y - seed["low"]], [seed["high"] - y]]
                axes.errorbar(x, y, error, fmt="o", color=colour)
                points.append((position, y))
        means = {x: fmean(y for at, y in points if at == x) for x, _ in points}
        axes.plot(list(means), list(means.values()), color=colour, label=f"sets of {size}")
    axes.axhline(0, color=GREY, linewidth=1)
    axes.set_xticks(range(len(SIZES)), [str(count) for count in SIZES])
    axes.set_xlabel("photographs in an image")
    axes.set_ylabel("RSUM of sets minus one vector\n(95 % intervals, one mark per seed)")
    axes.set_title(experiment.plot_title(TITLE))
    axes.legend()
    return save_figure(figure, experiment.out / "ambiguity.png")


STUDY = Study(
    "ambiguity",
    "not in the paper: sets against one vector on collages of 1, 2, 4 and 9 photographs",
    variants,
    page,
    check,
    prepare,
)
