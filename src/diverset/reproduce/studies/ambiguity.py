"""Not in the paper: sets against one vector as images become more ambiguous.

Images are collages of n photographs, each caption describes one of them (`reproduce.collages`).
"""

from __future__ import annotations

from dataclasses import asdict, replace
from pathlib import Path
from statistics import fmean
from typing import Any

from diverset.data import CaptionDataset
from diverset.errors import OptionError
from diverset.evaluation import paired_bootstrap
from diverset.recipe.datasets import DatasetReader
from diverset.reproduce.claims import Claim, decide
from diverset.reproduce.collages import COMPLETE, FILE, IMAGES, draw_images, write_captions
from diverset.reproduce.experiment import Experiment
from diverset.reproduce.page import Page, write_page
from diverset.reproduce.plots import BLUE, GREEN, GREY, ORANGE, new_figure, save_figure
from diverset.reproduce.reports import load_ranks
from diverset.reproduce.results import collect_result
from diverset.reproduce.runs import Run
from diverset.reproduce.scenes import SCENES_FILE
from diverset.reproduce.study import Failed, Study
from diverset.reproduce.tables import RSUM, VARIANCES, bootstrap_table, result_table
from diverset.reproduce.variants import Variant, both_sets
from diverset.runtime.progress import Progress

TITLE = "Sets against one vector on ambiguous images"
COUNTS = (1, 2, 4, 9)
"""Photographs in a collage."""
SIZES = (1, 4)
"""Elements of a set, for every number of photographs."""
MORE_SIZES = {4: (2, 8)}
"""Further sizes for a number of photographs."""
AMBIGUOUS = 2
"""From this number of photographs on, sets are claimed to win."""


def check(experiment: Experiment) -> None:
    data = experiment.recipe.data
    if data.images is None or data.sources or data.file == SCENES_FILE:
        raise OptionError(
            f"{experiment.name} does not read a folder of photographs, to make collages of; "
            "give a recipe such as flickr8k_minilm.yaml"
        )


def variant_name(count: int, size: int) -> str:
    return f"n = {count}, K = {size}"


def variants(experiment: Experiment) -> list[Variant]:
    """One variant per number of photographs and set size; captions are written if missing."""
    result = []
    for count in COUNTS:
        folder = _collage_folder(experiment, count)
        if not (folder / FILE).exists():
            write_captions(folder, _photos(experiment, captions_only=True), count)
        data = {"root": str(folder), "file": FILE, "images": IMAGES, "format": "karpathy"}
        names = {"train": "train", "val": "val", "test": "val"}
        changes = {f"data.{name}": value for name, value in (data | names).items()}
        for size in _sizes(count):
            result.append(Variant(variant_name(count, size), changes | both_sets(size=size)))
    return result


def _sizes(count: int) -> list[int]:
    return sorted((*SIZES, *MORE_SIZES.get(count, ())))


def prepare(experiment: Experiment) -> None:
    """Draw the collages."""
    variants(experiment)
    folders = [_collage_folder(experiment, count) for count in COUNTS]
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


def bootstraps(
    experiment: Experiment, count: int, size: int, failed: Failed
) -> list[dict[str, Any]]:
    """Sets of `size` against one vector on collages of `count` photographs, one entry per seed."""
    by_name = {variant.name: variant for variant in variants(experiment)}
    pair = [by_name[variant_name(count, elements)] for elements in (1, size)]
    rows = []
    for seed in range(experiment.seeds):
        runs = [experiment.run_for(variant, seed) for variant in pair]
        if not any(run.folder in failed for run in runs):
            one, several = (load_ranks(run.ranks(experiment.split)) for run in runs)
            rows.append({"run_seed": seed, **asdict(paired_bootstrap(one, several))})
    return rows


def write(experiment: Experiment, failed: Failed) -> Path:
    experiment = replace(experiment, split="val")
    results = [collect_result(experiment, variant, failed) for variant in variants(experiment)]
    compared = {
        (count, size): bootstraps(experiment, count, size, failed)
        for count in COUNTS
        for size in _sizes(count)[1:]
    }
    named = {variant_name(*key): seeds for key, seeds in compared.items()}
    return write_page(
        experiment,
        Page(
            "ambiguity",
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
        ),
    )


def _claims() -> list[Claim]:
    return [
        Claim(
            f"sets of {size} beat one vector on collages of {count}",
            (variant_name(count, size),),
            (variant_name(count, 1),),
        )
        for count in COUNTS
        for size in _sizes(count)
        if count >= AMBIGUOUS and size >= SIZES[-1]
    ]


def _plot(
    experiment: Experiment, compared: dict[tuple[int, int], list[dict[str, Any]]]
) -> list[str]:
    figure, (axes,) = new_figure()
    sizes = sorted({size for _, size in compared})
    for size, colour in zip(sizes, (GREEN, BLUE, ORANGE), strict=False):
        points = []
        for position, count in enumerate(COUNTS):
            for seed in compared.get((count, size), ()):
                shift = 0.07 * (seed["run_seed"] - (experiment.seeds - 1) / 2)
                x, y = position + shift + 0.25 * (sizes.index(size) - 1), seed["difference"]
                error = [[y - seed["low"]], [seed["high"] - y]]
                axes.errorbar(x, y, error, fmt="o", color=colour)
                points.append((position, y))
        means = {x: fmean(y for at, y in points if at == x) for x, _ in points}
        axes.plot(list(means), list(means.values()), color=colour, label=f"sets of {size}")
    axes.axhline(0, color=GREY, linewidth=1)
    axes.set_xticks(range(len(COUNTS)), [str(count) for count in COUNTS])
    axes.set_xlabel("photographs in an image")
    axes.set_ylabel("RSUM of sets minus one vector\n(95 % intervals, one mark per seed)")
    axes.set_title(experiment.plot_title(TITLE))
    axes.legend()
    return save_figure(figure, experiment.out / "ambiguity.png")


def runs(experiment: Experiment) -> list[Run]:
    return experiment.runs_for(variants(experiment))


STUDY = Study(
    "ambiguity",
    "not in the paper: sets against one vector on collages of 1, 2, 4 and 9 photographs",
    runs,
    write,
    check,
    prepare,
)
