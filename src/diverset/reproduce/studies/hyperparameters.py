"""Tab. 4: the number K of elements, the number T of iterations, and alpha."""

from __future__ import annotations

from typing import Any

from diverset.reproduce.claims import Claim, decide
from diverset.reproduce.experiment import Experiment
from diverset.reproduce.page import Page
from diverset.reproduce.plots import GREY, draw_relative, new_figure, save_figure
from diverset.reproduce.results import Result, collect_result
from diverset.reproduce.runs import Failed
from diverset.reproduce.study import Study
from diverset.reproduce.tables import RSUM, VARIANCES, result_table
from diverset.reproduce.variants import Variant, both_sets

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


VARIANTS = {
    name: tuple(
        Variant(f"{name} = {value}", _changes(name, value), {"rsum": rsum})
        for value, rsum in numbers.items()
    )
    for name, numbers in PAPER.items()
}


def _names(name: str, *values: int) -> tuple[str, ...]:
    return tuple(f"{name} = {value}" for value in values)


CLAIMS = {
    "K": (
        Claim("sets of four beat a single vector", _names("K", 4), _names("K", 1)),
        Claim("K = 1 is the worst", _names("K", 2, 3, 4, 5, 6), _names("K", 1)),
        Claim("K > 3 is consistently high", _names("K", 4, 5, 6), _names("K", 1, 2, 3)),
        Claim("K = 4 is the best", _names("K", 4), _names("K", 1, 2, 3, 5, 6)),
    ),
    "T": (
        Claim("one iteration is much worse than four", _names("T", 4), _names("T", 1)),
        Claim("T > 2 is consistently high", _names("T", 3, 4, 5, 6), _names("T", 1, 2)),
        Claim("T = 4 is the best", _names("T", 4), _names("T", 1, 2, 3, 5, 6)),
    ),
    "alpha": (
        Claim("alpha = 16 beats alpha = 1", _names("alpha", 16), _names("alpha", 1)),
        Claim(
            "alpha > 4 is consistently high",
            _names("alpha", 8, 16, 32, 64),
            _names("alpha", 1, 2, 4),
        ),
        Claim("alpha = 16 is the best", _names("alpha", 16), _names("alpha", 1, 2, 4, 8, 32, 64)),
    ),
}


def page(experiment: Experiment, failed: Failed) -> Page:
    results = {
        name: [collect_result(experiment, variant, failed) for variant in variants]
        for name, variants in VARIANTS.items()
    }
    return Page(
        "Hyperparameters: K, T, alpha",
        "Tab. 4: one of the three is changed, the others keep the recipe's value. The paper's "
        "numbers are for Flickr30K with region features, all at K = 4, T = 4, alpha = 16.",
        tables=[result_table(group, (RSUM, *VARIANCES)) for group in results.values()],
        verdicts=[decide(claim, results[name]) for name in results for claim in CLAIMS[name]],
        plots=_plot(experiment, results),
        results=[result for group in results.values() for result in group],
    )


def _plot(experiment: Experiment, results: dict[str, list[Result]]) -> list[str]:
    figure, panels = new_figure(1, len(results), width=11, height=4)
    for axes, (name, group) in zip(panels, results.items(), strict=True):
        base = next(result for result in group if result.name == f"{name} = {BEST[name]}")
        shown = [result for result in group if result.mean("rsum") is not None]
        if base in shown:
            positions = list(range(len(shown)))
            draw_relative(axes, positions, shown, base, "rsum")
            axes.set_xticks(positions, [result.name.split(" = ")[1] for result in shown])
        axes.axhline(0, color=GREY, linewidth=1)
        axes.set_xlabel(name)
        axes.set_ylabel(f"RSUM minus that at {name} = {BEST[name]}")
        axes.set_title(f"RSUM over {name}")
    handles, labels = panels[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=2, frameon=False)
    figure.suptitle(experiment.plot_title("Hyperparameters"))
    return save_figure(figure, experiment.out / "hyperparameters.png")


STUDY = Study(
    "hyperparameters",
    "Tab. 4: K and T from 1 to 6, alpha from 1 to 64",
    lambda experiment: [variant for group in VARIANTS.values() for variant in group],
    page,
)
