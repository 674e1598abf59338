"""Smooth-Chamfer (Eq. 6) as SQL that the server computes.

Exponentials of all pairs are formed once for each row and then summed both ways. What is written
here is only the shape of the statement; every number is a bound parameter.
"""

from __future__ import annotations

import numpy as np
from jaxtyping import Float
from numpy.typing import NDArray
from psycopg import sql

Values = dict[str, float | NDArray[np.float32]]


def element(place: int) -> str:
    """The column that holds an element of a stored set."""
    return f"e{place}"


def weights(queries: int, slots: int) -> sql.Composed:
    """exp(alpha * cosine) of all pairs; pgvector's operator is the negative product."""
    # OFFSET 0 keeps the planner from computing each exponential once for each of its two uses.
    pairs = (
        sql.SQL("exp(-%(alpha)s::float8 * ({} <#> {})) AS {}").format(
            sql.Identifier("item", element(place)),
            sql.Placeholder(f"query{queried}"),
            sql.Identifier(_weight(queried, place)),
        )
        for queried in range(queries)
        for place in range(slots)
    )
    return sql.SQL("(SELECT {} OFFSET 0)").format(sql.SQL(", ").join(pairs))


def score(queries: int, slots: int) -> sql.Composed:
    """Eq. 6 over the columns of `weights`."""
    rows = [[_weight(queried, place) for place in range(slots)] for queried in range(queries)]
    columns = [list(column) for column in zip(*rows, strict=True)]
    return sql.SQL("({} / {} + {} / {}) / (2 * %(alpha)s::float8)").format(
        _logarithms(rows), queries, _logarithms(columns), slots
    )


def parameters(query: Float[np.ndarray, "query_slots dim"], alpha: float) -> Values:
    """The parameters that `weights` and `score` name, and the query's mean."""
    values: Values = {"alpha": alpha, "mean": query.mean(axis=0)}
    return values | {f"query{place}": one for place, one in enumerate(query)}


def _weight(queried: int, place: int) -> str:
    return f"w{queried}_{place}"


def _logarithms(rows: list[list[str]]) -> sql.Composed:
    sums = (sql.SQL(" + ").join(sql.Identifier(name) for name in row) for row in rows)
    return sql.SQL("({})").format(sql.SQL(" + ").join(sql.SQL("ln({})").format(s) for s in sums))
