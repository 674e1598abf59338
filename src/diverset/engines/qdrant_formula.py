"""Smooth-Chamfer (Eq. 6) as a query that Qdrant evaluates.

Every pair of a query element and a stored element is a prefetch whose score is their cosine; a
formula combines the scores to Eq. 6. In approximate search, every prefetch only considers the
points whose mean is nearest to the query's mean, found in the HNSW graph. The product of two means
is the mean of all cosines, the limit of smooth-Chamfer for small alpha.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from jaxtyping import Float
from qdrant_client import models

MEAN = "mean"
EF_SEARCH_FACTOR = 2  # nodes visited per candidate; see docs/log.md
MISSING = -1.0  # the lowest cosine, for a pair whose prefetch did not return the point


def prefetches(
    query: Float[np.ndarray, "query_elements dim"],
    elements: Sequence[str],
    limit: int,
    exact: bool,
    filter: models.Filter | None,
) -> list[models.Prefetch]:
    """The cosines of all pairs, ordered by query element, then by stored element.

    `elements` are the named vectors of a stored set. At most `limit` points are scored: with
    `exact`, the best by each cosine, which are all if the limit allows; else those with the nearest
    means.
    """
    nearest = models.Prefetch(
        query=query.mean(axis=0).tolist(),
        using=MEAN,
        limit=limit,
        filter=filter,
        params=models.SearchParams(hnsw_ef=EF_SEARCH_FACTOR * limit),
    )
    return [
        models.Prefetch(
            prefetch=None if exact else [nearest],
            query=vector.tolist(),
            using=element,
            limit=limit,
            filter=filter,
            params=models.SearchParams(exact=True) if exact else None,
        )
        for vector in query
        for element in elements
    ]


def formula(query_elements: int, elements: int, alpha: float) -> models.FormulaQuery:
    """Eq. 6 over the scores of `prefetches`."""
    weights = [
        [_exp(alpha, query * elements + stored) for stored in range(elements)]
        for query in range(query_elements)
    ]
    to_set = _sum_of_logs(weights, 1 / (2 * query_elements * alpha))
    to_query = _sum_of_logs(
        [list(column) for column in zip(*weights, strict=True)], 1 / (2 * elements * alpha)
    )
    return models.FormulaQuery(
        formula=models.SumExpression(sum=[to_set, to_query]),
        defaults={f"$score[{pair}]": MISSING for pair in range(query_elements * elements)},
    )


def _exp(alpha: float, pair: int) -> models.ExpExpression:
    return models.ExpExpression(exp=models.MultExpression(mult=[alpha, f"$score[{pair}]"]))


def _sum_of_logs(weights: list[list[models.ExpExpression]], factor: float) -> models.MultExpression:
    logs: list[models.Expression] = [
        models.LnExpression(ln=models.SumExpression(sum=list(row))) for row in weights
    ]
    return models.MultExpression(mult=[factor, models.SumExpression(sum=logs)])
