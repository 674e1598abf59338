"""The measured numbers of a variant: for each metric one per seed, with mean and spread."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from statistics import fmean, stdev
from typing import Any

from diverset.reproduce.experiment import Experiment
from diverset.reproduce.reports import load_report
from diverset.reproduce.runs import Failed, Run
from diverset.reproduce.variants import Variant


def report_metrics(report: dict[str, Any]) -> dict[str, float]:
    """The metrics of a stored report; models with one vector per item have no variances."""
    metrics: dict[str, float] = {
        f"{short}_{recall}": report[direction][recall]
        for short, direction in (("i2t", "image_to_text"), ("t2i", "text_to_image"))
        for recall in ("r1", "r5", "r10")
    }
    metrics["rsum"] = report["rsum"]
    if report["health"]:
        # E[log v]; the paper does not say whether it took the logarithm or the mean first.
        for item in ("image", "text"):
            variance = report["health"][f"{item}s"]["mean_log_variance"]
            if variance is not None:
                metrics[f"{item}_log_variance"] = variance
    return metrics


@dataclass(frozen=True)
class Result:
    """What the runs of a variant measured.

    Attributes:
        name: as in the table.
        values: for each metric one number per seed; metrics that do not apply are missing.
        paper: the paper's numbers.
        note: remarks, for example that runs failed.
        runs: names of the run folders.
    """

    name: str
    values: Mapping[str, Sequence[float]]
    paper: Mapping[str, float] = field(default_factory=dict)
    note: str = ""
    runs: Sequence[str] = ()

    def mean(self, metric: str) -> float | None:
        numbers = self.values.get(metric)
        return fmean(numbers) if numbers else None

    def spread(self, metric: str) -> float | None:
        """Standard deviation over the seeds; None for a single seed."""
        numbers = self.values.get(metric, ())
        return stdev(numbers) if len(numbers) > 1 else None

    def to_dict(self) -> dict[str, Any]:
        return {
            "name": self.name,
            "paper": dict(self.paper),
            "values": {name: list(numbers) for name, numbers in self.values.items()},
            "mean": {name: self.mean(name) for name in self.values},
            "standard_deviation": {name: self.spread(name) for name in self.values},
            "note": self.note,
            "runs": list(self.runs),
        }


def run_metrics(experiment: Experiment, *runs: Run) -> dict[str, float]:
    """Minutes of training and the metrics of the stored report."""
    minutes = sum(run.seconds for run in runs) / 60
    return {"minutes": minutes, **report_metrics(load_report(experiment, runs))}


def collect_result(
    experiment: Experiment,
    variant: Variant,
    failed: Failed,
    measure: Callable[..., Mapping[str, float]] = run_metrics,
    parts: Sequence[Variant] = (),
) -> Result:
    """Measure a variant for every seed, by its run or by those of its `parts`.

    `parts` are the variants of which it is the mean similarity, trained with the same seed.
    """
    folders, notes = [], []
    values: dict[str, list[float]] = {}
    for seed in range(experiment.seeds):
        runs = [experiment.run_for(part, seed) for part in parts or (variant,)]
        reasons = [failed[run.folder] for run in runs if run.folder in failed]
        if reasons:
            notes.append(f"seed {runs[0].recipe.train.seed} failed: {reasons[0]}")
            continue
        folders += [run.folder.name for run in runs]
        for name, number in measure(experiment, *runs).items():
            values.setdefault(name, []).append(number)
    return Result(variant.name, values, variant.paper, "; ".join(notes), folders)


def pooled_spread(results: Sequence[Result], metric: str) -> float | None:
    """Standard deviation over seeds, pooled over all results: that of two seeds is unreliable.

    >>> a, b = Result("a", {"rsum": [1.0, 3.0]}), Result("b", {"rsum": [5.0, 5.0]})
    >>> pooled_spread([a, b], "rsum")
    1.0
    """
    groups = [numbers for result in results if len(numbers := result.values.get(metric, ())) > 1]
    if not groups:
        return None
    squares = sum((len(group) - 1) * stdev(group) ** 2 for group in groups)
    return math.sqrt(squares / sum(len(group) - 1 for group in groups))
