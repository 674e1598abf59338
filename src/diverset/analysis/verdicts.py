"""Does a claim of the paper hold here? Decided from means and spreads alone.

A claim says that some rows beat others in a metric. A difference counts only where it exceeds the
spread over seeds; where it does not, the claim is not decided. This module knows no study.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean

from diverset.analysis.outcomes import Outcome, pooled_spread

HOLDS, FAILS, OPEN = "holds", "does not hold", "not decided"
SHOWN = 3  # pairs of rows in a verdict


@dataclass(frozen=True)
class Claim:
    """Every one of `better` lies above every one of `worse`.

    Rows that come from the same runs are `paired`: they are compared seed by seed, and it is the
    spread of these differences that counts.
    """

    text: str
    better: tuple[str, ...]
    worse: tuple[str, ...]
    metric: str = "rsum"
    paired: bool = False


@dataclass(frozen=True)
class Verdict:
    """A claim, whether it holds, and the numbers that say so."""

    claim: str
    answer: str
    numbers: str


@dataclass(frozen=True)
class Difference:
    """Two rows compared: the difference of means, and the spread that it has to exceed."""

    better: Outcome
    worse: Outcome
    metric: str
    value: float
    spread: float | None

    @property
    def answer(self) -> str:
        if self.spread is None or abs(self.value) <= self.spread:
            return OPEN
        return HOLDS if self.value > 0 else FAILS

    def __str__(self) -> str:
        over = "one seed, no spread" if self.spread is None else f"spread {self.spread:.2f}"
        return (
            f"{self.better.name} {self.better.mean(self.metric):.2f} - {self.worse.name} "
            f"{self.worse.mean(self.metric):.2f} = {self.value:+.2f} ({over})"
        )


def judge(claim: Claim, outcomes: Sequence[Outcome]) -> Verdict:
    """Holds if all pairs do; fails if one is clearly the other way round; else not decided.

    >>> ours, theirs = Outcome("a", {"rsum": [9.0, 9.2]}), Outcome("b", {"rsum": [5.0, 5.2]})
    >>> judge(Claim("a beats b", ("a",), ("b",)), [ours, theirs]).answer
    'holds'
    """
    named = {one.name: one for one in outcomes}
    missing = [
        name
        for name in (*claim.better, *claim.worse)
        if name not in named or named[name].mean(claim.metric) is None
    ]
    if missing:
        return Verdict(claim.text, OPEN, f"no numbers for {', '.join(missing)}")
    rows = [(named[one], named[other]) for one in claim.better for other in claim.worse]
    if claim.paired:
        pairs = compare_paired(rows, claim.metric)
    else:
        pooled = pooled_spread(outcomes, claim.metric)
        pairs = [compare(one, other, claim.metric, pooled) for one, other in rows]
    answers = [pair.answer for pair in pairs]
    answer = OPEN
    if FAILS in answers:
        answer = FAILS
    elif all(one == HOLDS for one in answers):
        answer = HOLDS
    # The pairs that decide: those that answered so, the closest first.
    shown = sorted((pair for pair in pairs if pair.answer == answer), key=lambda pair: pair.value)
    numbers = "; ".join(str(pair) for pair in shown[:SHOWN])
    if len(shown) > SHOWN:
        numbers += f"; and {len(shown) - SHOWN} more"
    return Verdict(claim.text, answer, numbers)


def compare(
    better: Outcome, worse: Outcome, metric: str, pooled: float | None = None
) -> Difference:
    """The difference of two rows and its spread.

    The spread of a difference is the root of both squared standard deviations, and at least what
    the standard deviation pooled over all rows gives: two seeds may agree by chance.
    """
    first, second = better.mean(metric), worse.mean(metric)
    assert first is not None and second is not None
    own = [one.spread(metric) for one in (better, worse)]
    spread = None
    if own[0] is not None and own[1] is not None:
        spread = max(math.hypot(own[0], own[1]), math.sqrt(2) * (pooled or 0.0))
    return Difference(better, worse, metric, first - second, spread)


def compare_paired(rows: Sequence[tuple[Outcome, Outcome]], metric: str) -> list[Difference]:
    """Differences seed by seed; their spread is at least the one pooled over these pairs."""
    gaps = {
        f"{place}": [
            ours - theirs
            for ours, theirs in zip(one.values[metric], other.values[metric], strict=True)
        ]
        for place, (one, other) in enumerate(rows)
    }
    outcomes = [Outcome(name, {metric: found}) for name, found in gaps.items()]
    pooled = pooled_spread(outcomes, metric)
    return [
        Difference(
            *pair,
            metric,
            fmean(gap.values[metric]),
            None if (own := gap.spread(metric)) is None else max(own, pooled or 0.0),
        )
        for pair, gap in zip(rows, outcomes, strict=True)
    ]
