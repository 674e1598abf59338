"""Fig. A1: embedding spaces under MIL, MP and smooth-Chamfer; colour = slot, shape = modality.

The plot shows the first seed. What it illustrates is also measured in the embedding space, for
every seed: whether elements of one slot form a cluster, and whether a slot is unused.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor

from diverset.errors import import_extra
from diverset.reproduce.claims import Claim, decide
from diverset.reproduce.encoded_split import EncodedSplit, check_several_elements, encode_run
from diverset.reproduce.experiment import Experiment
from diverset.reproduce.page import Page
from diverset.reproduce.plots import COLOURS, GREY, new_figure, save_figure
from diverset.reproduce.reports import load_report, stored_json
from diverset.reproduce.results import collect_result
from diverset.reproduce.runs import Failed, Run, file_name
from diverset.reproduce.studies.similarity import MIL, MP, SMOOTH
from diverset.reproduce.study import Study
from diverset.reproduce.tables import Column, result_table

VARIANTS = tuple(replace(variant, paper={}) for variant in (MIL, MP, SMOOTH))
ITEMS = 150  # images, and as many captions
NEIGHBOURS = 10
PERPLEXITY = 30.0
COLUMNS = (
    Column("neighbours of the same slot, percent", "same_slot"),
    Column("least used image slot, percent", "least_use"),
)
CLAIMS = (
    Claim(
        "elements of one slot cluster more under MIL than under smooth-Chamfer",
        (MIL.name,),
        (SMOOTH.name,),
        "same_slot",
    ),
    Claim(
        "MIL leaves slots unused that smooth-Chamfer uses", (SMOOTH.name,), (MIL.name,), "least_use"
    ),
)


def sample_elements(
    encoded: EncodedSplit,
) -> tuple[Float[Tensor, "points dim"], Int[Tensor, "points 2"]]:
    """Elements of some images and of one caption of each, with (modality, slot) per element."""
    count = min(ITEMS, len(encoded.images))
    first = torch.tensor([int(captions[0]) for captions in encoded.split.by_image[:count]])
    points, labels = [], []
    for modality, sets in enumerate((encoded.images[:count], encoded.texts[first])):
        points.append(sets.flatten(0, 1))
        slots = torch.arange(sets.shape[1]).repeat(count)
        labels.append(torch.stack([torch.full_like(slots, modality), slots], dim=1))
    return torch.cat(points), torch.cat(labels)


def same_slot(points: Tensor, labels: Tensor) -> float:
    """Percent of the nearest neighbours that have the same slot and modality.

    >>> points, labels = torch.eye(2).repeat_interleave(3, 0), torch.zeros(6, 2).long()
    >>> labels[3:, 1] = 1
    >>> same_slot(points, labels)
    100.0
    """
    cosines = points @ points.T
    cosines.fill_diagonal_(-2)
    kind = labels[:, 0] * 1000 + labels[:, 1]
    counts = kind.bincount()
    smallest = int(counts[counts > 0].min())
    nearest = cosines.topk(max(1, min(NEIGHBOURS, smallest - 1)), dim=1).indices
    return float(100 * (kind[nearest] == kind[:, None]).double().mean())


def measure(experiment: Experiment, run: Run) -> dict[str, float]:
    """Both numbers of a run; stored in its folder."""

    def compute() -> dict[str, float]:
        health = load_report(experiment, [run])["health"]
        return {
            "same_slot": same_slot(*sample_elements(encode_run(experiment, run))),
            "least_use": 100 * min(health["images"]["slot_use"]),
        }

    file = run.folder / f"space-{file_name(experiment.split)}.json"
    stored: dict[str, float] = stored_json(file, compute)
    return stored


def page(experiment: Experiment, failed: Failed) -> Page:
    results = [collect_result(experiment, variant, failed, measure) for variant in VARIANTS]
    model = experiment.recipe.model
    uniform = 100 / (model.image_set.size + model.text_set.size)
    return Page(
        "Embedding spaces",
        f"Fig. A1: t-SNE of the elements of {ITEMS} images and one caption of each, seed 0 "
        f"(scikit-learn, perplexity {PERPLEXITY:g}). Of the {NEIGHBOURS} nearest neighbours of "
        f"an element, about {uniform:.0f} percent have the same slot and modality if slots are "
        "mixed evenly, and 100 percent if every slot is a separate cluster. A slot is used by "
        "a matching pair if it has the highest cosine.",
        tables=[result_table(results, COLUMNS)],
        verdicts=[decide(claim, results) for claim in CLAIMS],
        plots=_plot(experiment, failed),
        results=results,
    )


def _plot(experiment: Experiment, failed: Failed) -> list[str]:
    figure, panels = new_figure(1, len(VARIANTS), width=12, height=4.6)
    model = experiment.recipe.model
    for axes, variant in zip(panels, VARIANTS, strict=True):
        axes.set_title(f"{variant.name} (seed 0)")
        axes.set_xticks([])
        axes.set_yticks([])
        run = experiment.run_for(variant, 0)
        if run.folder not in failed:
            _scatter(axes, *sample_elements(encode_run(experiment, run)))
    slots = range(max(model.image_set.size, model.text_set.size))
    entries = [("s", COLOURS[slot % len(COLOURS)], f"slot {slot + 1}") for slot in slots]
    lines: Any = import_extra("matplotlib.lines", "analysis")
    handles = [
        lines.Line2D([], [], marker=marker, color=colour, linestyle="none", label=label)
        for marker, colour, label in (*entries, ("o", GREY, "image"), ("^", GREY, "text"))
    ]
    figure.legend(handles=handles, loc="outside lower center", ncols=len(handles), frameon=False)
    figure.suptitle(experiment.plot_title("Elements of sets under three similarities, t-SNE"))
    return save_figure(figure, experiment.out / "tsne.png", svg=False)


def _scatter(axes: Any, points: Tensor, labels: Tensor) -> None:
    manifold: Any = import_extra("sklearn.manifold", "analysis")
    perplexity = min(PERPLEXITY, (len(points) - 1) / 3)
    tsne = manifold.TSNE(perplexity=perplexity, random_state=0, init="pca")
    positions = tsne.fit_transform(points.numpy())
    for modality, marker in enumerate("o^"):
        for slot in range(int(labels[:, 1].max()) + 1):
            mask = ((labels[:, 0] == modality) & (labels[:, 1] == slot)).numpy()
            colour = COLOURS[slot % len(COLOURS)]
            axes.scatter(*positions[mask].T, s=14, marker=marker, color=colour, alpha=0.7, lw=0)


STUDY = Study(
    "tsne",
    "Fig. A1: embedding spaces under MIL, MP, smooth-Chamfer",
    lambda experiment: VARIANTS,
    page,
    check_several_elements,
)
