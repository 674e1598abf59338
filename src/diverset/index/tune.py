"""Choosing the cheapest plan of the fast mode that reaches a wanted recall, on the user's data.

Plans are chosen on one half of the queries and reported on the other half. It does not know how a
graph works.
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
from diverset.index.base import Hit, Sets
from diverset.index.fast import Plan
from diverset.index.scan import Scan

CANDIDATES = (1, 1.2, 1.3, 1.5, 2, 3, 5, 10, 20, 50)  # times k
EFFORTS = (1, 1.4, 1.7, 2, 2.5, 3, 4)  # times candidates
FINALISTS, TURNS = 5, 10  # plans that are timed again, in turns: other programs disturb one of them
Found = list[list[Hit]]
Search = Callable[[Sets, Plan | None], Found]
"""Answers queries by a plan, or exactly."""


class _Tried(NamedTuple):
    plan: Plan
    recall: float
    seconds: float


@dataclass(frozen=True)
class Tuned:
    """The plan that was chosen, and how much it saves.

    Attributes:
        plan: with the recall on queries that it was not chosen on.
        wanted: the recall that was asked for.
        seconds, exact_seconds: for one query among many.
    """

    plan: Plan
    wanted: float
    seconds: float
    exact_seconds: float

    def __str__(self) -> str:
        plan = self.plan
        short = "" if plan.recall >= self.wanted else f" (wanted: {self.wanted:g})"
        return (
            f"recall@{plan.k} {plan.recall:.4f}{short} over {plan.queries} queries, "
            f"{1e3 * self.seconds:.2f} ms a query (exact: {1e3 * self.exact_seconds:.2f}), "
            f"{plan.candidates} candidates, effort {plan.effort}"
            + (", means and elements" if plan.elements else ", means")
        )


def choose(search: Search, plans: Iterator[Plan], queries: Sets, k: int, wanted: float) -> Tuned:
    """The fastest of the first plans that reach the recall; the best one if none does.

    Args:
        search: how queries are answered.
        plans: graphs to try, the cheaper ones first; the next one is made only if needed.
        queries: at least 2; half of them choose.
        k: how many are to be found.
        wanted: recall, between 0 and 1.
    """
    if not 0 < wanted <= 1:
        raise OptionError(f"recall is {wanted}; give a number above 0 and up to 1")
    if len(queries) < 2:
        raise OptionError(f"{len(queries)} queries are too few to measure a recall; give 100")
    exact, exact_seconds = min((_timed(search, queries, None) for _ in range(3)), key=itemgetter(1))
    tried: list[_Tried] = []
    for graphs in plans:
        good: list[_Tried] = []
        for plan in _settings(graphs, k):
            if good and plan.candidates > 2 * good[0].plan.candidates:
                break  # what scores so many more is not faster
            found, seconds = _timed(search, queries[::2], plan)
            tried.append(_Tried(plan, _safely(recalls(found, exact[::2])), seconds))
            good += [tried[-1]] if tried[-1].recall >= wanted else []
        if good:
            best, seconds = _fastest(search, queries[::2], good)
            break
    else:
        if not tried:
            raise OptionError("no plan to choose from")
        best, _, seconds = max(tried, key=lambda one: one.recall)
    final = search(queries[1::2], best)
    recall = float(recalls(final, exact[1::2]).mean())
    plan = replace(best, recall=recall, queries=len(final), k=k)
    return Tuned(plan, wanted, seconds, exact_seconds)


def _fastest(search: Search, queries: Sets, good: list[_Tried]) -> tuple[Plan, float]:
    finalists = [one.plan for one in sorted(good, key=lambda one: one.seconds)[:FINALISTS]]
    turns = [[_timed(search, queries, plan)[1] for plan in finalists] for _ in range(TURNS)]
    seconds = [min(each) for each in zip(*turns, strict=True)]
    at = int(np.argmin(seconds))
    return finalists[at], seconds[at]


def recalls(found: Found, exact: Found) -> Float[np.ndarray, " queries"]:
    """For each query the share of its exact hits that were found."""
    return np.array(
        [
            len({hit.id for hit in a} & {hit.id for hit in b}) / max(1, len(b))
            for a, b in zip(found, exact, strict=True)
        ]
    )


def _safely(each: Float[np.ndarray, " queries"]) -> float:
    """The mean less its standard error: the best of many plans is partly the luckiest."""
    return float(each.mean() - each.std() / np.sqrt(len(each)))


def _settings(graphs: Plan, k: int) -> Iterable[Plan]:
    """Different ones: rounded up for a small k, many are the same."""
    each = ((math.ceil(some * k), effort) for some, effort in product(CANDIDATES, EFFORTS))
    return dict.fromkeys(
        replace(graphs, candidates=few, effort=math.ceil(effort * few)) for few, effort in each
    )


def _timed(search: Search, queries: Sets, plan: Plan | None) -> tuple[Found, float]:
    """Hits, and seconds a query."""
    search(queries[:1], plan)  # opens what is opened once
    start = time.perf_counter()
    found = search(queries, plan)
    return found, (time.perf_counter() - start) / len(queries)


def sample_queries(scan: Scan, count: int = 400, seed: int = 0) -> Sets:
    """Stored sets as queries, a little turned, for who has no queries of their own."""
    random = np.random.default_rng(seed)
    chosen = random.permutation(len(scan))[:count]
    sets = scan.sets_at(chosen)
    turned = sets + 0.3 / np.sqrt(sets.shape[2]) * random.standard_normal(sets.shape)
    unit: Sets = turned / np.linalg.norm(turned, axis=2, keepdims=True)
    return unit.astype(np.float32)
