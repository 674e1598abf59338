"""Smooth-Chamfer (Eq. 6) as SQL.

The exponentials of all pairs are computed once per row and then summed in both directions. Every
number is a bound parameter.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from jaxtyping import Float
from numpy.typing import NDArray
from psycopg import sql

Values = dict[str, float | NDArray[np.float32]]


def weights(query_elements: int, elements: Sequence[str]) -> sql.Composed:
    """exp(alpha * cosine) of all pairs; pgvector's `<#>` is the negative inner product."""
    # OFFSET 0 keeps the planner from computing each exponential once for each of its two uses.
    pairs = (
        sql.SQL("exp(-%(alpha)s::float8 * ({} <#> {})) AS {}").format(
            sql.Identifier("item", element),
            sql.Placeholder(f"query{query}"),
            sql.Identifier(_weight(query, stored)),
        )
        for query in range(query_elements)
        for stored, element in enumerate(elements)
    )
    return sql.SQL("(SELECT {} OFFSET 0)").format(sql.SQL(", ").join(pairs))


def score(query_elements: int, elements: int) -> sql.Composed:
    """Eq. 6 over the columns of `weights`."""
    rows = [
        [_weight(query, stored) for stored in range(elements)] for query in range(query_elements)
    ]
    columns = [list(column) for column in zip(*rows, strict=True)]
    return sql.SQL("({} / {} + {} / {}) / (2 * %(alpha)s::float8)").format(
        _sum_of_logs(rows), query_elements, _sum_of_logs(columns), elements
    )


def parameters(query: Float[np.ndarray, "query_elements dim"], alpha: float) -> Values:
    """The parameters of `weights` and `score`, and the query's mean."""
    values: Values = {"alpha": alpha, "mean": query.mean(axis=0)}
    return values | {f"query{index}": vector for index, vector in enumerate(query)}


def _weight(query: int, stored: int) -> str:
    return f"w{query}_{stored}"


def _sum_of_logs(rows: list[list[str]]) -> sql.Composed:
    sums = (sql.SQL(" + ").join(sql.Identifier(name) for name in row) for row in rows)
    return sql.SQL("({})").format(sql.SQL(" + ").join(sql.SQL("ln({})").format(s) for s in sums))
