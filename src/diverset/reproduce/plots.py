"""Plots with titles, legends and colours that colour-blind people can tell apart.

matplotlib comes with the extra `analysis`. Plots are written as PNG and SVG.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from diverset.errors import import_extra
from diverset.reproduce.results import Result

BLUE, ORANGE, GREEN, PURPLE = "#0072B2", "#D55E00", "#009E73", "#CC79A7"
YELLOW, SKY, GREY = "#E69F00", "#56B4E9", "#666666"
COLOURS = (BLUE, ORANGE, GREEN, PURPLE, YELLOW, SKY)
"""Okabe and Ito's palette without the light yellow, which is hard to see on white."""
MAX_LINEAR_RANGE, LINEAR_LIMIT = 100.0, 10


def new_figure(rows: int = 1, columns: int = 1, width: float = 7.0, height: float = 4.0) -> Any:
    """A figure and its axes as a flat list, drawn without a window."""
    import_extra("matplotlib", "analysis").use("Agg")
    pyplot: Any = import_extra("matplotlib.pyplot", "analysis")
    figure, grid = pyplot.subplots(
        rows, columns, figsize=(width, height), squeeze=False, layout="constrained"
    )
    for axes in grid.flat:
        axes.spines[["top", "right"]].set_visible(False)
        axes.grid(alpha=0.25)
        axes.set_axisbelow(True)
    return figure, list(grid.flat)


def save_figure(figure: Any, file: Path, svg: bool = True) -> list[str]:
    """Write `file` (PNG) and an SVG of the same name; returns the name of the PNG in a list."""
    pyplot: Any = import_extra("matplotlib.pyplot", "analysis")
    file.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(file, dpi=150)
    if svg:
        # Without a date, and with ids from a fixed salt: the same numbers give the same file.
        with pyplot.rc_context({"svg.hashsalt": "diverset"}):
            figure.savefig(file.with_suffix(".svg"), metadata={"Date": None})
    pyplot.close(figure)
    return [file.name]


def plot_results(
    file: Path,
    title: str,
    results: Sequence[Result],
    base: str,
    metric: str = "rsum",
    label: str = "RSUM",
) -> list[str]:
    """A metric of every result minus that of the base, ours and the paper's on one axis."""
    shown = [result for result in results if result.mean(metric) is not None]
    by_name = {result.name: result for result in shown}
    if base not in by_name:
        return []
    figure, (axes,) = new_figure(height=1.7 + (0.5 if len(shown) < 8 else 0.35) * len(shown))
    positions = list(range(len(shown)))[::-1]
    draw_relative(axes, positions, shown, by_name[base], metric, horizontal=True)
    axes.axvline(0, color=GREY, linewidth=1)
    label = f"{label} minus that of “{base}”"
    if np.ptp(axes.get_xlim()) > MAX_LINEAR_RANGE:  # an outlier would compress all others
        _use_symlog(axes)
        label += f"\n(linear from -{LINEAR_LIMIT} to {LINEAR_LIMIT}, logarithmic beyond)"
    axes.set_yticks(positions, [result.name for result in shown])
    axes.set_ylim(-0.6, len(shown) - 0.4)
    axes.set_xlabel(label)
    axes.set_title(title)
    figure.legend(loc="outside lower center", ncols=2, frameon=False)
    return save_figure(figure, file)


def _use_symlog(axes: Any) -> None:
    axes.set_xscale("symlog", linthresh=LINEAR_LIMIT)
    axes.xaxis.set_major_formatter("{x:g}")
    low, high = axes.get_xlim()
    axes.set_xlim(2 * low if low < 0 else low, 2 * high if high > 0 else high)
    for limit in (-LINEAR_LIMIT, LINEAR_LIMIT):  # where the scale changes
        axes.axvline(limit, color=GREY, linewidth=1, linestyle=":")


def draw_relative(
    axes: Any,
    positions: Sequence[float],
    results: Sequence[Result],
    base: Result,
    metric: str,
    horizontal: bool = False,
) -> None:
    """Ours with the spread over seeds, and the paper's, both relative to the base."""
    zero = base.mean(metric)
    assert zero is not None
    values = [(result.mean(metric) or 0.0) - zero for result in results]
    spreads = [result.spread(metric) or 0.0 for result in results]
    style = {"capsize": 3, "label": "here (± standard deviation over seeds)", "color": BLUE}
    if horizontal:
        # Slightly apart, so that both markers of the base are visible.
        lower = [position - 0.1 for position in positions]
        positions = [position + 0.1 for position in positions]
        axes.errorbar(values, lower, xerr=spreads, fmt="o", linestyle="none", **style)
    else:
        axes.errorbar(positions, values, yerr=spreads, fmt="o", linestyle="-", **style)
    paper = [
        (position, result.paper[metric] - base.paper[metric])
        for position, result in zip(positions, results, strict=True)
        if metric in result.paper and metric in base.paper
    ]
    if paper:
        where, numbers = zip(*paper, strict=True)
        line = "none" if horizontal else "--"
        points = (numbers, where) if horizontal else (where, numbers)
        axes.plot(*points, color=ORANGE, marker="^", label="paper", linestyle=line)
