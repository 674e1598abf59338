"""Sec. 4.4 and appendix: FLOPs and latency of VSE-infinity, sets and SCAN, side by side.

SCAN's row runs SCAN. How it is measured is the business of `flops`.
"""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path

import torch

from diverset.analysis.bench import Bench
from diverset.analysis.flops import (
    REGIONS,
    SCAN,
    SINGLE,
    SIZE,
    WIDTH,
    WORDS,
    Cost,
    at_the_papers_size,
    measure,
)
from diverset.analysis.methods import OURS, methods
from diverset.analysis.plots import BLUE, ORANGE, SKY, figure, save
from diverset.analysis.study import Failed, Study
from diverset.analysis.tables import Page, markdown_table, write_page
from diverset.analysis.worker import encoding_device
from diverset.training.opening import read_split

NAMES = (SINGLE, OURS, SCAN)
PAPER_RATIO = {SINGLE: 1.0, OURS: 16.0, SCAN: 1280.0}
PAPER_LATENCY = {SINGLE: 159.0, OURS: 168.0, SCAN: 198_121.0}  # ms, on Flickr30K's validation


def write(bench: Bench, failed: Failed) -> Path:
    rows = {row.name: row for row in methods(bench.recipe) if row.name in NAMES}
    paper_size = at_the_papers_size()
    found = {name: measure(bench, bench.recipe_of(rows[name]).model) for name in NAMES}
    table = [
        [
            name,
            f"{PAPER_RATIO[name]:,.0f}",
            f"{paper_size[name] / paper_size[SINGLE]:,.0f}",
            f"{found[name].pair_flops:,}",
            f"{found[name].pair_flops / found[SINGLE].pair_flops:,.1f}",
            f"{found[name].pair_ms:.3f}",
        ]
        for name in NAMES
    ]
    retrieval = [
        [
            name,
            f"{PAPER_LATENCY[name]:,.0f}",
            f"{PAPER_LATENCY[name] / PAPER_LATENCY[SINGLE]:,.1f}",
            f"{found[name].retrieval_flops:,}",
            f"{found[name].retrieval_ms:.2f}",
            f"{found[name].retrieval_ms / found[SINGLE].retrieval_ms:,.1f}",
        ]
        for name in NAMES
    ]
    images = len(read_split(bench.recipe.data, bench.split))
    threads, device = torch.get_num_threads(), encoding_device(bench.device)
    return write_page(
        bench,
        Page(
            "cost",
            "Cost of a comparison",
            "Sec. 4.4 and appendix: what it takes to score encoded items. FLOPs are counted by "
            "torch, two for a multiplication and addition; the paper counts one, which leaves "
            f"ratios as they are. Latencies: median, {threads} threads, {device}.",
            tables=[
                "## One pair",
                markdown_table(
                    [
                        "method",
                        "paper: ratio of FLOPs",
                        "ratio at the paper's size",
                        "FLOPs",
                        "ratio",
                        "ms",
                    ],
                    table,
                ),
                f"## The ten nearest of {images:,} images for one caption",
                markdown_table(
                    ["method", "paper: ms", "paper: ratio", "FLOPs", "ms", "ratio"], retrieval
                ),
            ],
            pictures=_plot(
                bench.out / "cost.png", bench.titled("Cost of a comparison"), paper_size, found
            ),
            numbers={
                "paper_ratio": PAPER_RATIO,
                "paper_latency_ms": PAPER_LATENCY,
                "flops_at_the_papers_size": paper_size,
                "measured": {name: asdict(one) for name, one in found.items()},
                "images": images,
                "threads": threads,
            },
            notes=[
                f"The paper's size is D = {WIDTH}, K = {SIZE}, {REGIONS} regions, and {WORDS} "
                "words, with which SCAN's cosines and attended vectors take the paper's 1.24M "
                "multiplications (2 x 17 x 36 x 1024). SCAN here takes the attended vectors' "
                "lengths from the Gram matrix of the regions instead, which needs less memory "
                "and for a single pair more products."
            ],
        ),
    )


def _plot(
    target: Path, title: str, paper_size: dict[str, int], found: dict[str, Cost]
) -> list[str]:
    drawn, (axes,) = figure()
    bars: list[tuple[str, list[float], str]] = [
        ("paper", [PAPER_RATIO[name] for name in NAMES], ORANGE),
        ("here, at the paper's size", [paper_size[n] / paper_size[SINGLE] for n in NAMES], BLUE),
        (
            "here, at the recipe's size",
            [found[name].pair_flops / found[SINGLE].pair_flops for name in NAMES],
            SKY,
        ),
    ]
    for place, (label, values, colour) in enumerate(bars):
        where = [x + 0.27 * (place - 1) for x in range(len(NAMES))]
        drawn_bars = axes.bar(where, values, width=0.25, label=label, color=colour)
        axes.bar_label(drawn_bars, [f"{value:,.0f}" for value in values], fontsize=8)
    axes.set_yscale("log")
    axes.set_xticks(range(len(NAMES)), NAMES)
    axes.set_ylabel(f"FLOPs of one pair, {SINGLE} = 1")
    axes.set_title(title)
    axes.legend(loc="upper left")
    return save(drawn, target)


STUDY = Study(
    "cost",
    "Sec. 4.4: FLOPs and latency of VSE-infinity, ours and SCAN",
    lambda bench: [],
    write,
)
