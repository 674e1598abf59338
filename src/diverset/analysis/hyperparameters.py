"""Tab. 4: the number K of elements, the number T of iterations, and alpha."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from diverset.analysis.bench import Bench
from diverset.analysis.outcomes import Outcome, outcome_of
from diverset.analysis.plots import GREY, draw_relative, figure, save
from diverset.analysis.rows import Row, both_sets
from diverset.analysis.study import Failed, Study
from diverset.analysis.tables import RSUM, VARIANCES, Page, failures, outcome_table, write_page
from diverset.analysis.verdicts import Claim, judge

PAPER: dict[str, dict[int, float]] = {
    "K": {1: 492.6, 2: 495.5, 3: 497.4, 4: 500.8, 5: 498.4, 6: 499.3},
    "T": {1: 492.6, 2: 497.8, 3: 499.3, 4: 500.8, 5: 499.4, 6: 499.1},
    "alpha": {1: 495.2, 2: 497.2, 4: 497.7, 8: 498.9, 16: 500.8, 32: 499.3, 64: 499.0},
}
BEST = {"K": 4, "T": 4, "alpha": 16}


def _changes(name: str, value: int) -> dict[str, Any]:
    if name == "alpha":
        return {"model.similarity.alpha": float(value)}
    return both_sets(size=value) if name == "K" else both_sets(iterations=value)


ROWS = {
    name: tuple(
        Row(f"{name} = {value}", _changes(name, value), {"rsum": rsum})
        for value, rsum in figures.items()
    )
    for name, figures in PAPER.items()
}


def _rows(name: str, *values: int) -> tuple[str, ...]:
    return tuple(f"{name} = {value}" for value in values)


CLAIMS = {
    "K": (
        Claim("sets of four beat a single vector", _rows("K", 4), _rows("K", 1)),
        Claim("K = 1 is the worst", _rows("K", 2, 3, 4, 5, 6), _rows("K", 1)),
        Claim("K > 3 is consistently high", _rows("K", 4, 5, 6), _rows("K", 1, 2, 3)),
        Claim("K = 4 is the best", _rows("K", 4), _rows("K", 1, 2, 3, 5, 6)),
    ),
    "T": (
        Claim("one iteration is much worse than four", _rows("T", 4), _rows("T", 1)),
        Claim("T > 2 is consistently high", _rows("T", 3, 4, 5, 6), _rows("T", 1, 2)),
        Claim("T = 4 is the best", _rows("T", 4), _rows("T", 1, 2, 3, 5, 6)),
    ),
    "alpha": (
        Claim("alpha = 16 beats alpha = 1", _rows("alpha", 16), _rows("alpha", 1)),
        Claim(
            "alpha > 4 is consistently high",
            _rows("alpha", 8, 16, 32, 64),
            _rows("alpha", 1, 2, 4),
        ),
        Claim("alpha = 16 is the best", _rows("alpha", 16), _rows("alpha", 1, 2, 4, 8, 32, 64)),
    ),
}


def write(bench: Bench, failed: Failed) -> Path:
    found = {name: [outcome_of(bench, row, failed) for row in rows] for name, rows in ROWS.items()}
    every = [one for outcomes in found.values() for one in outcomes]
    verdicts = [
        judge(claim, outcomes) for name, outcomes in found.items() for claim in CLAIMS[name]
    ]
    return write_page(
        bench,
        Page(
            "hyperparameters",
            "Hyperparameters: K, T, alpha",
            "Tab. 4: one of the three is changed, the others stay at the recipe's. The paper's "
            "figures are for Flickr30K with region features, all at K = 4, T = 4, alpha = 16.",
            tables=[outcome_table(one, (RSUM, *VARIANCES)) for one in found.values()],
            verdicts=verdicts,
            pictures=_plot(
                bench.out / "hyperparameters.png", bench.titled("Hyperparameters"), found
            ),
            numbers={"rows": [one.to_dict() for one in every]},
            notes=failures(every),
        ),
    )


def _plot(target: Path, title: str, found: dict[str, list[Outcome]]) -> list[str]:
    drawn, panels = figure(1, len(found), width=11, height=4)
    for axes, (name, outcomes) in zip(panels, found.items(), strict=True):
        named = {one.name: one for one in outcomes}
        base = named[f"{name} = {BEST[name]}"]
        shown = [one for one in outcomes if one.mean("rsum") is not None]
        if base in shown:
            places = list(range(len(shown)))
            draw_relative(axes, places, shown, base, "rsum")
            axes.set_xticks(places, [one.name.split(" = ")[1] for one in shown])
        axes.axhline(0, color=GREY, linewidth=1)
        axes.set_xlabel(name)
        axes.set_ylabel(f"RSUM minus that at {name} = {BEST[name]}")
        axes.set_title(f"RSUM over {name}")
    handles, labels = panels[0].get_legend_handles_labels()
    drawn.legend(handles, labels, loc="outside lower center", ncols=2, frameon=False)
    drawn.suptitle(title)
    return save(drawn, target)


STUDY = Study(
    "hyperparameters",
    "Tab. 4: K and T from 1 to 6, alpha from 1 to 64",
    lambda bench: bench.runs_of([row for rows in ROWS.values() for row in rows]),
    write,
)
