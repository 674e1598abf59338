"""What the runs of a row found: numbers by metric, one for each seed, with mean and spread.

It reads stored reports; it does not evaluate, and does not know what the numbers should be.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from statistics import fmean, stdev
from typing import Any

from diverset.analysis.bench import Bench
from diverset.analysis.rows import Row
from diverset.training.run import RESULT


def _variance(side: str) -> Callable[[dict[str, Any]], float | None]:
    # E[log v]; the paper does not say whether it took the logarithm or the mean first.
    return lambda report: report["health"] and report["health"][side]["mean_log_variance"]


METRICS: dict[str, Callable[[dict[str, Any]], float | None]] = {
    "i2t_r1": lambda report: report["image_to_text"]["r1"],
    "i2t_r5": lambda report: report["image_to_text"]["r5"],
    "i2t_r10": lambda report: report["image_to_text"]["r10"],
    "t2i_r1": lambda report: report["text_to_image"]["r1"],
    "t2i_r5": lambda report: report["text_to_image"]["r5"],
    "t2i_r10": lambda report: report["text_to_image"]["r10"],
    "rsum": lambda report: report["rsum"],
    "image_log_variance": _variance("images"),
    "text_log_variance": _variance("texts"),
}


@dataclass(frozen=True)
class Outcome:
    """A row with its numbers.

    Attributes:
        name: as it stands in the table.
        values: for each metric one number a seed; a metric that a row does not have is missing.
        paper: the paper's figures.
        note: what else is to be said, e.g. that runs failed.
        runs: names of the run folders.
    """

    name: str
    values: Mapping[str, Sequence[float]]
    paper: Mapping[str, float] = field(default_factory=dict)
    note: str = ""
    runs: Sequence[str] = ()

    def mean(self, metric: str) -> float | None:
        found = self.values.get(metric)
        return fmean(found) if found else None

    def spread(self, metric: str) -> float | None:
        """Standard deviation over the seeds; None for one seed, which has none."""
        found = self.values.get(metric, ())
        return stdev(found) if len(found) > 1 else None

    def to_dict(self) -> dict[str, Any]:
        return {
            "name": self.name,
            "paper": dict(self.paper),
            "values": {name: list(found) for name, found in self.values.items()},
            "mean": {name: self.mean(name) for name in self.values},
            "standard_deviation": {name: self.spread(name) for name in self.values},
            "note": self.note,
            "runs": list(self.runs),
        }


def outcome_of(bench: Bench, row: Row, failed: Mapping[Path, str]) -> Outcome:
    """The stored reports of a row's runs as one outcome."""
    reports, runs, notes = [], [], []
    for seed in range(bench.seeds):
        run = bench.run_of(row, seed)
        if run.folder in failed:
            notes.append(f"seed {run.recipe.train.seed} failed: {failed[run.folder]}")
            continue
        reports.append(json.loads(run.report(bench.split).read_text(encoding="utf-8")))
        runs.append(run.folder)
    values: dict[str, list[float]] = {"minutes": [_minutes(run) for run in runs]} if runs else {}
    for name, get in METRICS.items():
        found = [number for report in reports if (number := get(report)) is not None]
        if found:
            values[name] = found
    names = [run.name for run in runs]
    return Outcome(row.name, values, row.paper, "; ".join(notes), names)


def _minutes(folder: Path) -> float:
    """How long a run was trained, on whatever else the machine was doing."""
    return float(json.loads((folder / RESULT).read_text(encoding="utf-8"))["seconds"]) / 60


def pooled_spread(outcomes: Sequence[Outcome], metric: str) -> float | None:
    """One standard deviation over seeds for all rows: two seeds alone say little about theirs.

    >>> a, b = Outcome("a", {"rsum": [1.0, 3.0]}), Outcome("b", {"rsum": [5.0, 5.0]})
    >>> pooled_spread([a, b], "rsum")
    1.0
    """
    groups = [found for one in outcomes if len(found := one.values.get(metric, ())) > 1]
    if not groups:
        return None
    squares = sum((len(group) - 1) * stdev(group) ** 2 for group in groups)
    return math.sqrt(squares / sum(len(group) - 1 for group in groups))
