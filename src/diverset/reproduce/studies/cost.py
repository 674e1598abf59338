"""Sec. 4.4 and appendix: FLOPs and latency of scoring, all systems of the comparison."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict

import torch

from diverset.recipe.datasets import read_split
from diverset.reproduce.experiment import Experiment
from diverset.reproduce.page import Page
from diverset.reproduce.paper_numbers import OURS
from diverset.reproduce.plots import BLUE, ORANGE, SKY, new_figure, save_figure
from diverset.reproduce.runs import Failed
from diverset.reproduce.scoring_cost import (
    REGIONS,
    SCAN,
    SINGLE,
    SYSTEMS,
    WIDTH,
    WORDS,
    Cost,
    flops_at_paper_size,
    measure_costs,
)
from diverset.reproduce.study import Study
from diverset.reproduce.tables import markdown_table
from diverset.runtime.device import resolve_device

TITLE = "Cost of a comparison"
PAPER_RATIO = {SINGLE: 1.0, OURS: 16.0, SCAN: 1280.0}
PAPER_LATENCY = {SINGLE: 159.0, OURS: 168.0, SCAN: 198_121.0}  # ms, on Flickr30K's validation
NOTE = (
    f"The paper's size is D = {WIDTH}, {REGIONS} regions, and {WORDS} words, with which SCAN's "
    "cosines and attended vectors take the paper's 1.24M multiplications (2 x 17 x 36 x 1024). "
    "SCAN here computes the lengths of the attended vectors from the Gram matrix of the regions "
    "instead, which needs less memory and, for a single pair, more products. Sets have the "
    "published sizes: 2 for PVSE, 7 samples for PCME, 4 for ours. SGRAF is the sum of SGR and SAF. "
    "CAAN is our reconstruction."
)


def page(experiment: Experiment, failed: Failed) -> Page:
    paper_size, costs = flops_at_paper_size(), measure_costs(experiment)
    images = len(read_split(experiment.recipe.data, experiment.split, captions_only=True))
    threads, device = torch.get_num_threads(), resolve_device(experiment.device)
    return Page(
        TITLE,
        "Sec. 4.4 and appendix: the cost of scoring encoded items. FLOPs are counted by torch, "
        "two for a multiplication and addition; the paper counts one, which does not change "
        f"the ratios. Latencies: median, {threads} threads, {device}.",
        tables=[
            "## One pair",
            _pair_table(paper_size, costs),
            f"## The ten nearest of {images:,} images for one caption",
            _retrieval_table(costs),
        ],
        plots=_plot(experiment, paper_size, costs),
        numbers={
            "paper_ratio": PAPER_RATIO,
            "paper_latency_ms": PAPER_LATENCY,
            "flops_at_paper_size": paper_size,
            "measured": {name: asdict(cost) for name, cost in costs.items()},
            "images": images,
            "threads": threads,
        },
        notes=[NOTE],
    )


def _ratios(costs: Mapping[str, float]) -> dict[str, float]:
    """Costs relative to that of one vector."""
    return {name: cost / costs[SINGLE] for name, cost in costs.items()}


def _pair_ratios(costs: dict[str, Cost]) -> dict[str, float]:
    return _ratios({name: cost.pair_flops for name, cost in costs.items()})


def _cell(numbers: Mapping[str, float], name: str, digits: int = 0) -> str:
    return f"{numbers[name]:,.{digits}f}" if name in numbers else "-"


def _pair_table(paper_size: dict[str, int], costs: dict[str, Cost]) -> str:
    head = ["method", "paper: ratio of FLOPs", "ratio at the paper's size", "FLOPs", "ratio", "ms"]
    rows = [
        [
            name,
            _cell(PAPER_RATIO, name),
            _cell(_ratios(paper_size), name),
            f"{cost.pair_flops:,}",
            _cell(_pair_ratios(costs), name, 1),
            f"{cost.pair_ms:.3f}",
        ]
        for name, cost in costs.items()
    ]
    return markdown_table(head, rows)


def _retrieval_table(costs: dict[str, Cost]) -> str:
    head = ["method", "paper: ms", "paper: ratio", "FLOPs", "ms", "ratio"]
    rows = [
        [
            name,
            _cell(PAPER_LATENCY, name),
            _cell(_ratios(PAPER_LATENCY), name, 1),
            f"{cost.retrieval_flops:,}",
            f"{cost.retrieval_ms:.2f}",
            f"{cost.retrieval_ms / costs[SINGLE].retrieval_ms:,.1f}",
        ]
        for name, cost in costs.items()
    ]
    return markdown_table(head, rows)


def _plot(experiment: Experiment, paper_size: dict[str, int], costs: dict[str, Cost]) -> list[str]:
    figure, (axes,) = new_figure()
    groups = (
        ("paper", PAPER_RATIO, ORANGE),
        ("here, at the paper's size", _ratios(paper_size), BLUE),
        ("here, at the recipe's size", _pair_ratios(costs), SKY),
    )
    for index, (label, ratios, colour) in enumerate(groups):
        rows = [row for row, name in enumerate(SYSTEMS) if name in ratios]
        values = [ratios[SYSTEMS[row]] for row in rows]
        places = [row + 0.27 * (index - 1) for row in rows]
        bars = axes.barh(places, values, height=0.25, label=label, color=colour)
        axes.bar_label(bars, [f"{value:,.0f}" for value in values], fontsize=7, padding=2)
    axes.set_xscale("log")
    axes.set_yticks(range(len(SYSTEMS)), SYSTEMS)
    axes.invert_yaxis()
    axes.set_xlabel(f"FLOPs of one pair, {SINGLE} = 1")
    axes.set_title(experiment.plot_title(TITLE))
    axes.legend(loc="lower right", fontsize=7)
    return save_figure(figure, experiment.out / "cost.png")


STUDY = Study(
    "cost", "Sec. 4.4: FLOPs and latency of scoring, all systems", lambda experiment: [], page
)
