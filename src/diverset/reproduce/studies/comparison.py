"""Tab. 1 and 2: methods by recalls and RSUM, ensembles of two, and paired bootstraps."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, replace

from diverset.errors import check_choice
from diverset.reproduce.claims import Claim, decide
from diverset.reproduce.experiment import Experiment
from diverset.reproduce.methods import CONTROL, HALVES, MEANS, methods
from diverset.reproduce.page import Page
from diverset.reproduce.paper_numbers import OURS, PAPER
from diverset.reproduce.plots import plot_results
from diverset.reproduce.reports import bootstrap_seeds, load_report, stored_json
from diverset.reproduce.results import Result, collect_result, report_metrics
from diverset.reproduce.runs import Failed
from diverset.reproduce.scoring_cost import measure_cost
from diverset.reproduce.study import Study
from diverset.reproduce.tables import RECALLS, RSUM, Column, bootstrap_table, cell, markdown_table
from diverset.reproduce.variants import Variant

TITLE = "Methods"
ENSEMBLE = 2  # seeds, as in the paper
COLUMNS = (*RECALLS, RSUM)
COSTS = (
    Column("minutes of training", "minutes"),
    Column("kFLOPs of a pair", "pair_kflops"),
    Column("ms of a pair", "pair_ms", 3),
    Column("ms of a top 10", "retrieval_ms"),
)
NOTES = (
    "CAAN is our reconstruction: no code was published, and its paper leaves sizes open.",
    "SGRAF is the mean similarity of SGR and SAF of the same seed, two models.",
    'The paper lists NAAF under "Bi-GRU"; the row is that of its ensemble with GloVe vectors.',
)


def page(experiment: Experiment, failed: Failed) -> Page:
    variants = {variant.name: variant for variant in compared_methods(experiment)}
    parts = {name: [variants[part] for part in parts_of(name)] for name in rows(list(variants))}
    results = [_result(experiment, name, parts[name], failed) for name in parts]
    ensembles = {
        name: _ensemble(experiment, of_method[0], failed)
        for name, of_method in parts.items()
        if len(of_method) == 1 and name not in HALVES
    }
    bootstraps = {
        name: bootstrap_seeds(experiment, theirs, parts[OURS], failed)
        for name, theirs in parts.items()
        if name != OURS
    }
    plot, title = experiment.out / "comparison.png", experiment.plot_title(TITLE)
    return Page(
        TITLE,
        "Tab. 1 and 2: every method under the recipe's own backbones, data and schedule. “+” "
        "is the mean similarity of two seeds. The paper's rows are below ours; they come from "
        "other data and other backbones, as named. Costs are those of scoring encoded items: "
        "one pair, and the ten nearest images of the split for one caption.",
        tables=[
            _table(experiment, results, ensembles),
            "## Ours against each method, paired bootstrap over images, seed by seed",
            bootstrap_table(
                "difference of",
                {f"{OURS} - {name}": seeds for name, seeds in bootstraps.items()},
                "RSUM",
            ),
        ],
        verdicts=[decide(claim, results) for claim in _claims(list(parts))],
        plots=plot_results(plot, title, results, OURS),
        results=results,
        numbers={
            "ensembles": {name: recalls for name, recalls in ensembles.items() if recalls},
            "paired_bootstrap": bootstraps,
        },
        notes=NOTES,
    )


def rows(names: Sequence[str]) -> list[str]:
    """The rows of the table: the methods, and the means after their parts.

    >>> rows(["SGR", "SAF", "NAAF"])
    ['SGR', 'SAF', 'SGRAF', 'NAAF']
    """
    ordered = list(names)
    for mean, parts in MEANS.items():
        if set(parts) <= set(names):
            ordered.insert(ordered.index(parts[-1]) + 1, mean)
    return ordered


def parts_of(name: str) -> tuple[str, ...]:
    """The methods of which a row is the mean; itself for most."""
    return MEANS.get(name, (name,))


def compared_methods(experiment: Experiment) -> list[Variant]:
    """The methods without the skipped ones; ours is last and cannot be skipped."""
    variants = methods(experiment.recipe)
    names = [variant.name for variant in variants if variant.name != OURS]
    for name in experiment.skip:
        check_choice("skip", name, [*names, *MEANS])
    skipped = {part for name in experiment.skip for part in parts_of(name)}
    return [variant for variant in variants if variant.name not in skipped]


def _result(
    experiment: Experiment, name: str, variants: Sequence[Variant], failed: Failed
) -> Result:
    """Recalls, minutes and cost of a row."""
    result = collect_result(experiment, Variant(name), failed, parts=variants)
    costs = [_cost(experiment, variant) for variant in variants]
    total = {metric: [sum(cost[metric] for cost in costs)] for metric in costs[0]}
    return replace(result, values={**result.values, **total} if result.values else {})


def _cost(experiment: Experiment, variant: Variant) -> dict[str, float]:
    """Measured once per architecture."""
    run = experiment.run_for(variant, 0)
    file = experiment.runs / "costs" / f"{run.folder.name}-{experiment.split}.json"
    cost = stored_json(file, lambda: asdict(measure_cost(experiment, run.recipe.model)))
    return {
        "pair_kflops": cost["pair_flops"] / 1e3,
        "pair_ms": cost["pair_ms"],
        "retrieval_ms": cost["retrieval_ms"],
    }


def _claims(names: Sequence[str]) -> list[Claim]:
    others = [name for name in names if name not in (OURS, CONTROL, *HALVES)]
    claims = [Claim(f"ours beats {name}", (OURS,), (name,)) for name in others]
    if CONTROL in names:
        claims.append(Claim("sets beat their control, one vector (K = 1)", (OURS,), (CONTROL,)))
    return claims


def _ensemble(experiment: Experiment, variant: Variant, failed: Failed) -> dict[str, float]:
    """Recalls of the mean similarity of the first two seeds; empty if there are fewer."""
    runs = experiment.runs_for([variant])[:ENSEMBLE] if experiment.ensembles else []
    if len(runs) < ENSEMBLE or any(run.folder in failed for run in runs):
        return {}
    return report_metrics(load_report(experiment, runs))


def _table(
    experiment: Experiment, results: Sequence[Result], ensembles: dict[str, dict[str, float]]
) -> str:
    data = "COCO 5K" if experiment.dataset == "coco" else "Flickr30K"
    lines = []
    for result in results:
        cells = (cell(result, column) for column in (*COLUMNS, *COSTS))
        lines.append([f"**{result.name}**", *cells])
        recalls = ensembles.get(result.name)
        if recalls:
            numbers = (f"{recalls[column.metric]:.1f}" for column in COLUMNS)
            lines.append([f"**{result.name} +**", *numbers, *[""] * len(COSTS)])
        for setting, paper in PAPER[data].get(result.name, {}).items():
            numbers = ("-" if number is None else f"{number:.1f}" for number in paper)
            lines.append([f"paper, {data}, {setting}", *numbers, *[""] * len(COSTS)])
    head = ["method", *(column.header for column in (*COLUMNS, *COSTS))]
    return markdown_table(head, lines)


STUDY = Study(
    "comparison",
    "Tab. 1 and 2: methods by recalls and RSUM, ensembles, paired bootstrap",
    compared_methods,
    page,
)
