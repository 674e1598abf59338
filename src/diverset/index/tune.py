"""Chooses the fastest plan of approximate search that reaches a recall on the user's queries.

Plans are chosen on one half of the queries; the reported recall is that of the other half.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from itertools import product
from operator import itemgetter
from typing import NamedTuple

import numpy as np
from jaxtyping import Float

from diverset.errors import OptionError
from diverset.index.approximate import Plan
from diverset.index.scan import Scan
from diverset.index.set_store import Hit, Sets

CANDIDATE_FACTORS = (1, 1.2, 1.3, 1.5, 2, 3, 5, 10, 20, 50)  # times k
EF_SEARCH_FACTORS = (1, 1.4, 1.7, 2, 2.5, 3, 4)  # times candidates
SAMPLED_QUERIES = 400
FINALISTS, ROUNDS = 5, 10  # plans timed again in turns, since other programs disturb a measurement
Hits = list[list[Hit]]
Search = Callable[[Sets, Plan | None], Hits]
"""Answers queries by a plan, or exactly."""


class _Trial(NamedTuple):
    plan: Plan
    recall: float
    seconds: float


@dataclass(frozen=True)
class TuningResult:
    """The chosen plan, and what it saves.

    Attributes:
        plan: with the recall on queries that it was not chosen on.
        target_recall: the requested recall.
        seconds, exact_seconds: per query of a batch.
    """

    plan: Plan
    target_recall: float
    seconds: float
    exact_seconds: float

    def __str__(self) -> str:
        plan = self.plan
        missed = "" if plan.recall >= self.target_recall else f" (target: {self.target_recall:g})"
        return (
            f"recall@{plan.k} {plan.recall:.4f}{missed} over {plan.queries} queries, "
            f"{1e3 * self.seconds:.2f} ms per query (exact: {1e3 * self.exact_seconds:.2f}), "
            f"{plan.candidates} candidates, ef_search {plan.ef_search}, graphs of "
            + ("means" if plan.elements is None else "means and elements")
        )


def choose_plan(
    search: Search, plans: Iterator[Plan], queries: Sets, k: int, target_recall: float
) -> TuningResult:
    """The fastest plan of the first graphs that reach the recall; the best one if none does.

    `plans` yields the graphs to try, cheapest first; the next one is built only if needed.
    """
    if not 0 < target_recall <= 1:
        raise OptionError(f"recall is {target_recall}; give a number above 0 and up to 1")
    if len(queries) < 2:
        raise OptionError(f"{len(queries)} queries are too few to measure a recall; give 100")
    exact, exact_seconds = min((_timed(search, queries, None) for _ in range(3)), key=itemgetter(1))
    trials: list[_Trial] = []
    for graphs in plans:
        reached: list[_Trial] = []
        for plan in _parameters(graphs, k):
            if reached and plan.candidates > 2 * reached[0].plan.candidates:
                break  # scoring this many more candidates is not faster
            hits, seconds = _timed(search, queries[::2], plan)
            trials.append(_Trial(plan, _lower_mean(recalls(hits, exact[::2])), seconds))
            reached += [trials[-1]] if trials[-1].recall >= target_recall else []
        if reached:
            best, seconds = _fastest(search, queries[::2], reached)
            break
    else:
        best, _, seconds = max(trials, key=lambda trial: trial.recall)
    held_out = search(queries[1::2], best)
    recall = float(recalls(held_out, exact[1::2]).mean())
    plan = replace(best, recall=recall, queries=len(held_out), k=k)
    return TuningResult(plan, target_recall, seconds, exact_seconds)


def _fastest(search: Search, queries: Sets, trials: list[_Trial]) -> tuple[Plan, float]:
    plans = [trial.plan for trial in sorted(trials, key=lambda trial: trial.seconds)[:FINALISTS]]
    rounds = [[_timed(search, queries, plan)[1] for plan in plans] for _ in range(ROUNDS)]
    seconds = [min(times) for times in zip(*rounds, strict=True)]
    fastest = int(np.argmin(seconds))
    return plans[fastest], seconds[fastest]


def recalls(hits: Hits, exact: Hits) -> Float[np.ndarray, " queries"]:
    """For each query, the share of its exact hits that were found."""
    return np.array(
        [
            len({hit.id for hit in row} & {hit.id for hit in best}) / max(1, len(best))
            for row, best in zip(hits, exact, strict=True)
        ]
    )


def _lower_mean(values: Float[np.ndarray, " queries"]) -> float:
    """The mean minus its standard error: the best of many plans is partly luck."""
    return float(values.mean() - values.std() / np.sqrt(len(values)))


def _parameters(graphs: Plan, k: int) -> Iterable[Plan]:
    """Distinct plans: for a small k, many are equal after rounding up."""
    counts = (math.ceil(factor * k) for factor in CANDIDATE_FACTORS)
    return dict.fromkeys(
        replace(graphs, candidates=count, ef_search=math.ceil(factor * count))
        for count, factor in product(counts, EF_SEARCH_FACTORS)
    )


def _timed(search: Search, queries: Sets, plan: Plan | None) -> tuple[Hits, float]:
    """Hits, and seconds per query."""
    search(queries[:1], plan)  # opens the graphs
    start = time.perf_counter()
    hits = search(queries, plan)
    return hits, (time.perf_counter() - start) / len(queries)


def sample_queries(scan: Scan) -> Sets:
    """Stored sets with noise, for users without queries of their own."""
    rng = np.random.default_rng(0)
    sets = scan.gather_sets(rng.permutation(len(scan))[:SAMPLED_QUERIES])
    noisy = sets + 0.3 / np.sqrt(sets.shape[2]) * rng.standard_normal(sets.shape)
    unit: Sets = noisy / np.linalg.norm(noisy, axis=2, keepdims=True)
    return unit.astype(np.float32)
