"""Tab. 5: retrieval with single elements, and with one element left out.

Slots have no fixed role: the second element of one seed is not that of another. Elements are
therefore sorted by their RSUM alone before seeds are averaged; the JSON file has the unsorted
numbers.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from diverset.evaluation import evaluate_sets, select_elements
from diverset.reproduce.claims import Claim, decide
from diverset.reproduce.encoded_split import check_several_elements, encode_run
from diverset.reproduce.experiment import Experiment
from diverset.reproduce.page import Page
from diverset.reproduce.plots import plot_results
from diverset.reproduce.reports import stored_json
from diverset.reproduce.results import Result
from diverset.reproduce.runs import Failed, Run, file_name
from diverset.reproduce.study import Study
from diverset.reproduce.tables import RSUM, result_table
from diverset.reproduce.variants import Variant

OURS = Variant("ours")
TITLE = "Elements of the sets"
WHOLE = "all elements"
GAP, RANGE = "worst image element below the others", "range of the others"
SIDES = ("image", "text")
PAPER_ALONE = {"image": (491.1, 486.0, 484.9, 309.6), "text": (497.2, 483.0, 481.9, 481.7)}
PAPER_WHOLE, PAPER_WITHOUT_WORST = 500.8, 500.2


def measure(experiment: Experiment, run: Run) -> dict[str, Any]:
    """RSUM with all elements, with each alone and without each."""
    encoded = encode_run(experiment, run)
    similarity, options = encoded.model.own_similarity()

    def rsum(image: list[int] | None = None, text: list[int] | None = None) -> float:
        """RSUM with these elements of the image and text sets."""
        return evaluate_sets(
            select_elements(encoded.images, image),
            select_elements(encoded.texts, text),
            encoded.split.dataset.image_index,
            similarity,
            health=False,
            **options,
        ).rsum

    numbers: dict[str, Any] = {WHOLE: rsum()}
    for side, sets in zip(SIDES, (encoded.images, encoded.texts), strict=True):
        indices = range(sets.shape[1])
        others = [[other for other in indices if other != index] for index in indices]
        numbers[side] = {
            "alone": [rsum(**{side: [index]}) for index in indices],
            "without": [rsum(**{side: rest}) for rest in others],
        }
    return numbers


def element_results(seeds: list[dict[str, Any]]) -> list[Result]:
    """Results with elements sorted by their RSUM alone, one number per seed."""
    results = [Result(WHOLE, {"rsum": [seed[WHOLE] for seed in seeds]}, {"rsum": PAPER_WHOLE})]
    for side in SIDES:
        count = len(seeds[0][side]["alone"])
        orders = [np.argsort(np.negative(seed[side]["alone"]), kind="stable") for seed in seeds]
        for kind in ("alone", "without"):
            for rank in range(count):
                ordered = zip(seeds, orders, strict=True)
                numbers = [seed[side][kind][order[rank]] for seed, order in ordered]
                paper = _paper(side, kind, rank, count)
                results.append(Result(_name(side, kind, rank), {"rsum": numbers}, paper))
    return results


def gap_results(seeds: list[dict[str, Any]]) -> list[Result]:
    """How far the worst image element is below the others, and the range of the others."""
    alone = [sorted(seed["image"]["alone"], reverse=True) for seed in seeds]
    return [
        Result(GAP, {"rsum": [rsums[-2] - rsums[-1] for rsums in alone]}),
        Result(RANGE, {"rsum": [rsums[0] - rsums[-2] for rsums in alone]}),
    ]


def _paper(side: str, kind: str, rank: int, count: int) -> dict[str, float]:
    numbers = PAPER_ALONE[side]
    if count != len(numbers):
        return {}
    if kind == "alone":
        return {"rsum": numbers[rank]}
    return {"rsum": PAPER_WITHOUT_WORST} if (side, rank) == ("image", count - 1) else {}


def _name(side: str, kind: str, rank: int) -> str:
    """The name of a row; elements are counted from 1.

    >>> _name("image", "alone", 0), _name("text", "without", 3)
    ('image element 1 alone', 'without text element 4')
    """
    element = f"{side} element {rank + 1}"
    return f"{element} alone" if kind == "alone" else f"without {element}"


def claims(images: int, texts: int) -> list[Claim]:
    """The claims for sets of these sizes."""
    alone = {
        side: tuple(_name(side, "alone", rank) for rank in range(count))
        for side, count in zip(SIDES, (images, texts), strict=True)
    }
    worst = _name("image", "without", images - 1)
    return [
        Claim("one image element alone is worse than all", (WHOLE,), alone["image"], paired=True),
        Claim("one text element alone is worse than all", (WHOLE,), alone["text"], paired=True),
        # Elements are sorted, so the last is always lower; "far" is more than the others differ.
        Claim(
            "one image element alone is far worse than the others", (GAP,), (RANGE,), paired=True
        ),
        Claim("leaving out the worst image element is worse, too", (WHOLE,), (worst,), paired=True),
    ]


def page(experiment: Experiment, failed: Failed) -> Page:
    name = f"elements-{file_name(experiment.split)}.json"
    by_run = {
        run.folder.name: stored_json(run.folder / name, partial(measure, experiment, run))
        for run in experiment.runs_for([OURS])
        if run.folder not in failed
    }
    missing = experiment.seeds - len(by_run)
    seeds = list(by_run.values())
    results, gaps = (element_results(seeds), gap_results(seeds)) if seeds else ([], [])
    sizes = (experiment.recipe.model.image_set.size, experiment.recipe.model.text_set.size)
    plot, title = experiment.out / "elements.png", experiment.plot_title(TITLE)
    return Page(
        TITLE,
        "Tab. 5: evaluation with one element of a side, or without one; the other side keeps "
        "all elements. Element 1 is the one that is best alone, in every seed and in the "
        "paper's numbers, so the order carries no information, only the gaps do. Rows come "
        "from the same runs and are compared seed by seed. The paper's numbers are for "
        "Flickr30K with region features.",
        tables=[result_table(results, [RSUM])],
        verdicts=[decide(claim, results + gaps) for claim in claims(*sizes)],
        plots=plot_results(plot, title, results, WHOLE),
        results=results,
        numbers={"by_element": by_run},
        notes=[f"Failed runs: {missing}."] if missing else [],
    )


STUDY = Study(
    "elements",
    "Tab. 5: single elements and leaving one out, images and texts",
    lambda experiment: [OURS],
    page,
    check_several_elements,
)
