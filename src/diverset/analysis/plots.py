"""Plots that one can read: titles, legends, and colours that colour-blind people tell apart.

matplotlib comes with the extra `analysis`. Every plot is written as PNG and SVG. This module does
not know what is plotted.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from diverset.analysis.outcomes import Outcome
from diverset.errors import import_extra

BLUE, ORANGE, GREEN, PURPLE = "#0072B2", "#D55E00", "#009E73", "#CC79A7"
YELLOW, SKY, GREY = "#E69F00", "#56B4E9", "#666666"
COLOURS = (BLUE, ORANGE, GREEN, PURPLE, YELLOW, SKY)
"""Okabe and Ito's; the plain yellow is left out, which is hard to see on white."""
FAR = 100.0


def figure(rows: int = 1, columns: int = 1, width: float = 7.0, height: float = 4.0) -> Any:
    """A figure and its axes as a flat list, drawn without a window."""
    import_extra("matplotlib", "analysis").use("Agg")
    pyplot: Any = import_extra("matplotlib.pyplot", "analysis")
    drawn, axes = pyplot.subplots(
        rows, columns, figsize=(width, height), squeeze=False, layout="constrained"
    )
    for one in axes.flat:
        one.spines[["top", "right"]].set_visible(False)
        one.grid(alpha=0.25)
        one.set_axisbelow(True)
    return drawn, list(axes.flat)


def save(drawn: Any, target: Path, svg: bool = True) -> list[str]:
    """Write `target` (PNG) and its SVG; returns the name of the first."""
    pyplot: Any = import_extra("matplotlib.pyplot", "analysis")
    target.parent.mkdir(parents=True, exist_ok=True)
    drawn.savefig(target, dpi=150)
    if svg:
        # Without a date, and with ids from a fixed word: the same numbers give the same file.
        with pyplot.rc_context({"svg.hashsalt": "diverset"}):
            drawn.savefig(target.with_suffix(".svg"), metadata={"Date": None})
    pyplot.close(drawn)
    return [target.name]


def plot_rows(
    target: Path,
    title: str,
    outcomes: Sequence[Outcome],
    base: str,
    metric: str = "rsum",
    label: str = "RSUM",
) -> list[str]:
    """A metric of every row minus that of the base row, ours and the paper's on one axis."""
    shown = [one for one in outcomes if one.mean(metric) is not None]
    named = {one.name: one for one in shown}
    if base not in named:
        return []
    drawn, (axes,) = figure(height=1.7 + (0.5 if len(shown) < 8 else 0.35) * len(shown))
    places = list(range(len(shown)))[::-1]
    draw_relative(axes, places, shown, named[base], metric, across=True)
    axes.axvline(0, color=GREY, linewidth=1)
    if np.ptp(axes.get_xlim()) > FAR:  # one row far off would press all others together
        axes.set_xscale("symlog", linthresh=10)
        axes.xaxis.set_major_formatter("{x:g}")
        least, most = axes.get_xlim()
        axes.set_xlim(2 * least if least < 0 else least, 2 * most if most > 0 else most)
    axes.set_yticks(places, [one.name for one in shown])
    axes.set_ylim(-0.6, len(shown) - 0.4)
    axes.set_xlabel(f"{label} minus that of “{base}”")
    axes.set_title(title)
    drawn.legend(loc="outside lower center", ncols=2, frameon=False)
    return save(drawn, target)


def draw_relative(
    axes: Any,
    places: Sequence[float],
    outcomes: Sequence[Outcome],
    base: Outcome,
    metric: str,
    across: bool = False,
) -> None:
    """Ours with the spread over seeds, and the paper's, both relative to the base row."""
    zero = base.mean(metric)
    assert zero is not None
    values = [(one.mean(metric) or 0.0) - zero for one in outcomes]
    spreads = [one.spread(metric) or 0.0 for one in outcomes]
    style = {"capsize": 3, "label": "here (± standard deviation over seeds)", "color": BLUE}
    line = "none" if across else "-"
    if across:
        # A little apart, so that the base row shows both.
        ours = [place - 0.1 for place in places]
        places = [place + 0.1 for place in places]
        axes.errorbar(values, ours, xerr=spreads, fmt="o", linestyle=line, **style)
    else:
        axes.errorbar(places, values, yerr=spreads, fmt="o", linestyle=line, **style)
    known = [
        (place, one.paper[metric] - base.paper[metric])
        for place, one in zip(places, outcomes, strict=True)
        if metric in one.paper and metric in base.paper
    ]
    if known:
        where, figures = zip(*known, strict=True)
        style = {"color": ORANGE, "marker": "^", "label": "paper", "linestyle": "none"}
        if not across:
            style["linestyle"] = "--"
        axes.plot(*((figures, where) if across else (where, figures)), **style)
