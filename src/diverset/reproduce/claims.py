"""Does a claim of the paper hold here? Decided from means and spreads alone.

A claim says that some variants beat others in a metric. A difference counts only if it exceeds the
spread over seeds; otherwise the claim is not decided, and the verdict says which differences the
seeds could have shown and how many seeds this one needs.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean

from diverset.reproduce.results import Result, pooled_spread

HOLDS, DOES_NOT_HOLD, NOT_DECIDED = "holds", "does not hold", "not decided"
MAX_SHOWN = 3  # pairs in the text of a verdict
DETECTABLE = 1.960 + 0.842
"""Standard errors that a difference must measure to be seen: two-sided test at 5 %, power 80 %."""


@dataclass(frozen=True)
class Claim:
    """Each variant in `better` is above each variant in `worse`.

    Variants measured on the same runs are `paired`: they are compared seed by seed, and the spread
    of these differences counts.
    """

    text: str
    better: tuple[str, ...]
    worse: tuple[str, ...]
    metric: str = "rsum"
    paired: bool = False


@dataclass(frozen=True)
class Verdict:
    """A claim, whether it holds, and the numbers that decide it."""

    claim: str
    answer: str
    numbers: str


@dataclass(frozen=True)
class Difference:
    """Difference of two means, and the spread that it has to exceed."""

    better: Result
    worse: Result
    metric: str
    value: float
    spread: float | None

    @property
    def answer(self) -> str:
        if self.spread is None or abs(self.value) <= self.spread:
            return NOT_DECIDED
        return HOLDS if self.value > 0 else DOES_NOT_HOLD

    def __str__(self) -> str:
        spread = "one seed, no spread" if self.spread is None else f"spread {self.spread:.2f}"
        return (
            f"{self.better.name} {self.better.mean(self.metric):.2f} - {self.worse.name} "
            f"{self.worse.mean(self.metric):.2f} = {self.value:+.2f} ({spread}{self._power()})"
        )

    def _power(self) -> str:
        """For a difference that is not decided: what its seeds can show, and what it needs."""
        if self.answer != NOT_DECIDED or self.spread is None:
            return ""
        seeds = min(len(result.values[self.metric]) for result in (self.better, self.worse))
        text = f"; {seeds} seeds show differences above {detectable(self.spread, seeds):.2f}"
        if self.value:
            text += f", this one needs {seeds_needed(self.value, self.spread):,}"
        return text


def detectable(spread: float, seeds: int) -> float:
    """The smallest difference of two means that this number of seeds per variant shows.

    `spread` is the standard deviation of the difference of two single runs.

    >>> round(detectable(3.5, 3), 2)
    5.66
    """
    return DETECTABLE * spread / math.sqrt(seeds)


def seeds_needed(difference: float, spread: float) -> int:
    """Seeds per variant that show a difference of this size.

    >>> seeds_needed(0.9, 3.5), seeds_needed(5.7, 3.5)
    (119, 3)
    """
    return max(2, math.ceil((DETECTABLE * spread / difference) ** 2))


def decide(claim: Claim, results: Sequence[Result]) -> Verdict:
    """Holds if all pairs do; does not hold if one pair is clearly reversed; else not decided.

    >>> ours, theirs = Result("a", {"rsum": [9.0, 9.2]}), Result("b", {"rsum": [5.0, 5.2]})
    >>> decide(Claim("a beats b", ("a",), ("b",)), [ours, theirs]).answer
    'holds'
    """
    by_name = {result.name: result for result in results}
    missing = [
        name
        for name in (*claim.better, *claim.worse)
        if name not in by_name or by_name[name].mean(claim.metric) is None
    ]
    if missing:
        return Verdict(claim.text, NOT_DECIDED, f"no numbers for {', '.join(missing)}")
    pairs = [(by_name[better], by_name[worse]) for better in claim.better for worse in claim.worse]
    if claim.paired:
        differences = compare_paired(pairs, claim.metric)
    else:
        pooled = pooled_spread(results, claim.metric)
        differences = [compare(*pair, claim.metric, pooled) for pair in pairs]
    answers = {difference.answer for difference in differences}
    answer = next(answer for answer in (DOES_NOT_HOLD, NOT_DECIDED, HOLDS) if answer in answers)
    deciding = sorted((d for d in differences if d.answer == answer), key=lambda d: d.value)
    numbers = [str(difference) for difference in deciding[:MAX_SHOWN]]  # the closest first
    if len(deciding) > MAX_SHOWN:
        numbers.append(f"and {len(deciding) - MAX_SHOWN} more")
    return Verdict(claim.text, answer, "; ".join(numbers))


def compare(better: Result, worse: Result, metric: str, pooled: float | None = None) -> Difference:
    """The difference of two results and its spread.

    The spread of a difference is the root of the sum of both squared standard deviations, and at
    least what the pooled standard deviation gives: two seeds may agree by chance.
    """
    first, second = better.mean(metric), worse.mean(metric)
    assert first is not None and second is not None
    deviations = [d for result in (better, worse) if (d := result.spread(metric)) is not None]
    spread = None
    if len(deviations) == 2:
        spread = max(math.hypot(*deviations), math.sqrt(2) * (pooled or 0.0))
    return Difference(better, worse, metric, first - second, spread)


def compare_paired(pairs: Sequence[tuple[Result, Result]], metric: str) -> list[Difference]:
    """Differences seed by seed; their spread is at least the one pooled over these pairs."""
    gaps = []
    for better, worse in pairs:
        seeds = zip(better.values[metric], worse.values[metric], strict=True)
        gaps.append(Result(better.name, {metric: [first - second for first, second in seeds]}))
    pooled = pooled_spread(gaps, metric) or 0.0
    differences = []
    for (better, worse), gap in zip(pairs, gaps, strict=True):
        own = gap.spread(metric)
        spread = None if own is None else max(own, pooled)
        differences.append(Difference(better, worse, metric, fmean(gap.values[metric]), spread))
    return differences
