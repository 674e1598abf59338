"""Tab. 5: what single elements are worth, alone and left out.

Slots have no names: the second element of one seed is not that of another. So elements are put in
the order of what they are worth alone before seeds are averaged; the numbers by element are kept
in the JSON file.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from diverset.analysis.bench import Bench, Run, file_name
from diverset.analysis.encoded import check_sets_of_several, encode_run
from diverset.analysis.outcomes import Outcome
from diverset.analysis.plots import plot_rows
from diverset.analysis.rows import Row
from diverset.analysis.study import Failed, Study
from diverset.analysis.tables import RSUM, Page, outcome_table, write_page
from diverset.analysis.verdicts import Claim, judge
from diverset.data.files import write_durably
from diverset.evaluation import evaluate_elements

WHOLE = "all elements"
GAP, RANGE = "worst image element below the others", "range of the others"
SIDES = ("image", "text")
PAPER_ALONE = {"image": (491.1, 486.0, 484.9, 309.6), "text": (497.2, 483.0, 481.9, 481.7)}
PAPER_WHOLE, PAPER_WITHOUT_WORST = 500.8, 500.2


def measure(bench: Bench, run: Run) -> dict[str, Any]:
    """RSUM with all elements, with each alone and without each; kept beside the run."""
    file = run.folder / f"elements-{file_name(bench.split)}.json"
    if file.exists():
        stored: dict[str, Any] = json.loads(file.read_text(encoding="utf-8"))
        return stored
    encoded = encode_run(bench, run)
    similarity, options = encoded.model.own_similarity()

    def rsum(**chosen: Any) -> float:
        report = evaluate_elements(
            encoded.images,
            encoded.texts,
            encoded.split.collection.owners,
            similarity=similarity,
            health=False,
            **chosen,
            **options,
        )
        return report.rsum

    found: dict[str, Any] = {WHOLE: rsum()}
    for side, sets in zip(SIDES, (encoded.images, encoded.texts), strict=True):
        every = range(sets.shape[1])
        found[side] = {
            "alone": [rsum(**{f"{side}_elements": [one]}) for one in every],
            "without": [
                rsum(**{f"{side}_elements": [other for other in every if other != one]})
                for one in every
            ],
        }
    write_durably(file, json.dumps(found, indent=2).encode())
    return found


def outcomes_of(found: list[dict[str, Any]]) -> list[Outcome]:
    """Rows in the order of what elements are worth alone, one number a seed."""
    rows = [Outcome(WHOLE, {"rsum": [one[WHOLE] for one in found]}, {"rsum": PAPER_WHOLE})]
    for side in SIDES:
        count = len(found[0][side]["alone"])
        ranked = [
            sorted(range(count), key=lambda place, one=one: -one[side]["alone"][place])  # type: ignore[misc]
            for one in found
        ]
        for kind in ("alone", "without"):
            for rank in range(count):
                numbers = [
                    one[side][kind][order[rank]] for one, order in zip(found, ranked, strict=True)
                ]
                paper = _paper(side, kind, rank, count)
                rows.append(Outcome(_name(side, kind, rank), {"rsum": numbers}, paper))
    return rows


def gaps_of(found: list[dict[str, Any]]) -> list[Outcome]:
    """How far the worst image element lies below the others, and how far these lie apart."""
    alone = [sorted(one["image"]["alone"], reverse=True) for one in found]
    return [
        Outcome(GAP, {"rsum": [one[-2] - one[-1] for one in alone]}),
        Outcome(RANGE, {"rsum": [one[0] - one[-2] for one in alone]}),
    ]


def _paper(side: str, kind: str, rank: int, count: int) -> dict[str, float]:
    figures = PAPER_ALONE[side]
    if count != len(figures):
        return {}
    if kind == "alone":
        return {"rsum": figures[rank]}
    return {"rsum": PAPER_WITHOUT_WORST} if (side, rank) == ("image", count - 1) else {}


def _name(side: str, kind: str, rank: int) -> str:
    """
    >>> _name("image", "alone", 0), _name("text", "without", 3)
    ('image element 1 alone', 'without text element 4')
    """
    return (
        f"{side} element {rank + 1} alone"
        if kind == "alone"
        else f"without {side} element {rank + 1}"
    )


def claims(images: int, texts: int) -> list[Claim]:
    alone = {
        side: tuple(_name(side, "alone", rank) for rank in range(count))
        for side, count in zip(SIDES, (images, texts), strict=True)
    }
    worst = _name("image", "without", images - 1)
    return [
        Claim("one image element alone is worse than all", (WHOLE,), alone["image"], paired=True),
        Claim("one text element alone is worse than all", (WHOLE,), alone["text"], paired=True),
        # Elements are sorted, so the last one is always lower; far is more than the others differ.
        Claim(
            "one image element alone is far worse than the others", (GAP,), (RANGE,), paired=True
        ),
        Claim("without the worst image element it is worse, too", (WHOLE,), (worst,), paired=True),
    ]


def write(bench: Bench, failed: Failed) -> Path:
    asked = bench.runs_of([Row("ours")])
    runs = [run for run in asked if run.folder not in failed]
    found = [measure(bench, run) for run in runs]
    rows, gaps = (outcomes_of(found), gaps_of(found)) if found else ([], [])
    sizes = (bench.recipe.model.image_set.size, bench.recipe.model.text_set.size)
    title = "Elements of the sets"
    return write_page(
        bench,
        Page(
            "elements",
            title,
            "Tab. 5: evaluation with one element of a side, or without one; the other side stays "
            "whole. Element 1 is the one that is best alone, in every seed and in the paper's "
            "row alike, so that their order is given and only the gaps tell something. Rows come "
            "from the same runs and are compared seed by seed. The paper's figures are for "
            "Flickr30K with region features.",
            tables=[outcome_table(rows, [RSUM])],
            verdicts=[judge(claim, rows + gaps) for claim in claims(*sizes)],
            pictures=plot_rows(bench.out / "elements.png", bench.titled(title), rows, WHOLE),
            numbers={
                "rows": [one.to_dict() for one in rows],
                "by_element": {run.folder.name: one for run, one in zip(runs, found, strict=True)},
            },
            notes=[f"{len(asked) - len(runs)} runs failed."] if len(runs) < len(asked) else [],
        ),
    )


STUDY = Study(
    "elements",
    "Tab. 5: single elements and leaving one out, images and texts",
    lambda bench: bench.runs_of([Row("ours")]),
    write,
    check_sets_of_several,
)
