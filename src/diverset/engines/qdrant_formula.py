"""Smooth-Chamfer as a query that Qdrant computes itself.

Every pair of a query element and a stored element is one prefetch, whose score is their cosine;
a formula makes Eq. 6 of the scores. With candidates, each prefetch looks only at the points whose
mean vector is nearest to the query's mean, which Qdrant finds in its HNSW graph: the product of
two means is the mean of all cosines, the limit of smooth-Chamfer for small alpha.
"""

from __future__ import annotations

import numpy as np
from jaxtyping import Float
from qdrant_client import models

MEAN = "mean"
EXPLORED = 2  # points of the graph that are looked at for each candidate; see docs/log.md
MISSING = -1.0  # the cosine of a pair whose prefetch did not return the point: the least there is


def element(place: int) -> str:
    """The name of the vector that holds an element of a stored set."""
    return f"e{place}"


def prefetches(
    query: Float[np.ndarray, "query_slots dim"],
    slots: int,
    limit: int,
    approximate: bool,
    where: models.Filter | None,
) -> list[models.Prefetch]:
    """The cosines of all pairs, query elements outside, stored elements inside.

    Args:
        query: one query set.
        slots: elements of a stored set.
        limit: how many points are scored.
        approximate: whether they are those nearest by their means; all points otherwise.
        where: which points count at all.
    """
    nearest = models.Prefetch(
        query=query.mean(axis=0).tolist(),
        using=MEAN,
        limit=limit,
        filter=where,
        params=models.SearchParams(hnsw_ef=EXPLORED * limit),
    )
    return [
        models.Prefetch(
            prefetch=[nearest] if approximate else None,
            query=one.tolist(),
            using=element(place),
            limit=limit,
            filter=where,
            params=None if approximate else models.SearchParams(exact=True),
        )
        for one in query
        for place in range(slots)
    ]


def formula(queries: int, slots: int, alpha: float) -> models.FormulaQuery:
    """Eq. 6 over the scores of `prefetches`."""
    weights = [
        [_exp(alpha, queried * slots + place) for place in range(slots)]
        for queried in range(queries)
    ]
    to_set = _sum_of_logarithms(weights, 1 / (2 * queries * alpha))
    to_query = _sum_of_logarithms(
        [list(column) for column in zip(*weights, strict=True)], 1 / (2 * slots * alpha)
    )
    return models.FormulaQuery(
        formula=models.SumExpression(sum=[to_set, to_query]),
        defaults={f"$score[{number}]": MISSING for number in range(queries * slots)},
    )


def _exp(alpha: float, number: int) -> models.ExpExpression:
    return models.ExpExpression(exp=models.MultExpression(mult=[alpha, f"$score[{number}]"]))


def _sum_of_logarithms(
    weights: list[list[models.ExpExpression]], factor: float
) -> models.MultExpression:
    logarithms: list[models.Expression] = [
        models.LnExpression(ln=models.SumExpression(sum=list(row))) for row in weights
    ]
    return models.MultExpression(mult=[factor, models.SumExpression(sum=logarithms)])
