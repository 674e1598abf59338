"""Fig. A1: embedding spaces under MIL, MP and smooth-Chamfer; colour = slot, shape = modality.

The plot is of the first seed. What it is to show is measured as well, in the space itself and for
every seed: whether elements of one slot keep to themselves, and whether a slot is left unused.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor

from diverset.analysis.bench import Bench, Run, file_name
from diverset.analysis.encoded import Encoded, check_sets_of_several, encode_run
from diverset.analysis.outcomes import Outcome
from diverset.analysis.plots import COLOURS, GREY, figure, save
from diverset.analysis.similarity import MIL, MP, SMOOTH
from diverset.analysis.study import Failed, Study
from diverset.analysis.tables import Column, Page, outcome_table, write_page
from diverset.analysis.verdicts import Claim, judge
from diverset.data.files import write_durably
from diverset.errors import import_extra

ROWS = (MIL, MP, SMOOTH)
ITEMS = 150  # images, and as many captions
NEIGHBOURS = 10
PERPLEXITY = 30.0
COLUMNS = (
    Column("neighbours of the same slot, percent", "same_slot"),
    Column("least used image slot, percent", "least_use"),
)
CLAIMS = (
    Claim(
        "under MIL elements of one slot keep to themselves, more than under smooth-Chamfer",
        (MIL.name,),
        (SMOOTH.name,),
        "same_slot",
    ),
    Claim(
        "MIL leaves slots unused that smooth-Chamfer uses",
        (SMOOTH.name,),
        (MIL.name,),
        "least_use",
    ),
)


def chosen(encoded: Encoded) -> tuple[Float[Tensor, "points dim"], Int[Tensor, "points 2"]]:
    """Elements of some images and of one caption of each; and (modality, slot) of every one."""
    count = min(ITEMS, len(encoded.images))
    first = torch.tensor([int(captions[0]) for captions in encoded.split.by_image[:count]])
    points, labels = [], []
    for modality, sets in enumerate((encoded.images[:count], encoded.texts[first])):
        points.append(sets.flatten(0, 1))
        slots = torch.arange(sets.shape[1]).repeat(count)
        labels.append(torch.stack([torch.full_like(slots, modality), slots], dim=1))
    return torch.cat(points), torch.cat(labels)


def same_slot(points: Tensor, labels: Tensor) -> float:
    """Share of the nearest elements that come from the same slot of the same modality, percent.

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


def measure(bench: Bench, run: Run) -> dict[str, float]:
    """Both numbers of a run, kept beside it."""
    file = run.folder / f"space-{file_name(bench.split)}.json"
    if not file.exists():
        report = json.loads(run.report(bench.split).read_text(encoding="utf-8"))
        found = {
            "same_slot": same_slot(*chosen(encode_run(bench, run))),
            "least_use": 100 * min(report["health"]["images"]["slot_use"]),
        }
        write_durably(file, json.dumps(found).encode())
    stored: dict[str, float] = json.loads(file.read_text(encoding="utf-8"))
    return stored


def write(bench: Bench, failed: Failed) -> Path:
    outcomes = []
    for row in ROWS:
        runs = [run for run in bench.runs_of([row]) if run.folder not in failed]
        found = [measure(bench, run) for run in runs]
        values = {column.metric: [one[column.metric] for one in found] for column in COLUMNS}
        outcomes.append(Outcome(row.name, values, runs=[run.folder.name for run in runs]))
    model = bench.recipe.model
    chance = 100 / (model.image_set.size + model.text_set.size)
    return write_page(
        bench,
        Page(
            "tsne",
            "Embedding spaces",
            f"Fig. A1: t-SNE of the elements of {ITEMS} images and one caption of each, seed 0 "
            f"(scikit-learn, perplexity {PERPLEXITY:g}). Of the {NEIGHBOURS} nearest elements of "
            f"an element, about {chance:.0f} percent are of its own slot and modality where slots "
            "do not matter, 100 where they keep to themselves. A slot is used where it has the "
            "highest cosine of a matching pair.",
            tables=[outcome_table(outcomes, COLUMNS)],
            verdicts=[judge(claim, outcomes) for claim in CLAIMS],
            pictures=_plot(bench, failed),
            numbers={"rows": [one.to_dict() for one in outcomes]},
        ),
    )


def _plot(bench: Bench, failed: Failed) -> list[str]:
    drawn, panels = figure(1, len(ROWS), width=12, height=4.6)
    slots = max(bench.recipe.model.image_set.size, bench.recipe.model.text_set.size)
    for axes, row in zip(panels, ROWS, strict=True):
        axes.set_title(f"{row.name} (seed 0)")
        axes.set_xticks([])
        axes.set_yticks([])
        run = bench.run_of(row, 0)
        if run.folder not in failed:
            _scatter(axes, *chosen(encode_run(bench, run)))
    handles = [
        *(_handle("s", COLOURS[slot % 6], f"slot {slot + 1}") for slot in range(slots)),
        _handle("o", GREY, "image"),
        _handle("^", GREY, "text"),
    ]
    drawn.legend(handles=handles, loc="outside lower center", ncols=len(handles), frameon=False)
    drawn.suptitle(bench.titled("Elements of sets under three similarities, t-SNE"))
    return save(drawn, bench.out / "tsne.png", svg=False)


def _scatter(axes: Any, points: Tensor, labels: Tensor) -> None:
    manifold: Any = import_extra("sklearn.manifold", "analysis")
    perplexity = min(PERPLEXITY, (len(points) - 1) / 3)
    made = manifold.TSNE(perplexity=perplexity, random_state=0, init="pca")
    places = made.fit_transform(points.numpy())
    for modality, marker in enumerate("o^"):
        for slot in range(int(labels[:, 1].max()) + 1):
            some = ((labels[:, 0] == modality) & (labels[:, 1] == slot)).numpy()
            axes.scatter(
                *places[some].T, s=14, marker=marker, color=COLOURS[slot % 6], alpha=0.7, lw=0
            )


def _handle(marker: str, colour: str, label: str) -> Any:
    lines: Any = import_extra("matplotlib.lines", "analysis")
    return lines.Line2D([], [], marker=marker, color=colour, linestyle="none", label=label)


STUDY = Study(
    "tsne",
    "Fig. A1: embedding spaces under MIL, MP, smooth-Chamfer",
    lambda bench: bench.runs_of(ROWS),
    write,
    check_sets_of_several,
)
