"""Scores of one query against many sets, from the cosines of their elements.

Everything that only sets can do is a function of these cosines: elements that count more or less,
coverage (every element must be met), one element alone. With equal weights `weighted` is
smooth-Chamfer (Eq. 6). It does not know where sets come from.
"""

from __future__ import annotations

import numpy as np
from jaxtyping import Float

from diverset.errors import OptionError, check_choice

Cosines = Float[np.ndarray, "items query_slots slots"]
Scores = Float[np.ndarray, " items"]
RULES = ("similarity", "coverage", "part")


def score(cosines: Cosines, alpha: float, rule: str, weights: Scores | None = None) -> Scores:
    """Scores by a rule of `RULES`."""
    check_choice("rule", rule, RULES)
    if rule == "coverage":
        return coverage(cosines)
    return part(cosines) if rule == "part" else weighted(cosines, alpha, weights)


def weighted(cosines: Cosines, alpha: float, weights: Scores | None = None) -> Scores:
    """Smooth-Chamfer in which query elements count as much as their weights say.

    >>> cosines = np.array([[[1.0, 0.0], [0.0, 1.0]]])
    >>> weighted(cosines, 16.0).round(3), weighted(cosines, 16.0, np.array([1.0, 0.0])).round(3)
    (array([1.]), array([0.772]))
    """
    shares = _shares(cosines.shape[1], weights)
    there = _log_sum(alpha * cosines, axis=2) @ shares
    logs = np.log(np.maximum(shares * len(shares), 1e-300))
    back = _log_sum(alpha * cosines + logs[:, None], axis=1).mean(axis=1)
    found: Scores = (there + back) / (2 * alpha)
    return found


def coverage(cosines: Cosines) -> Scores:
    """How well the query element that is met worst is met.

    >>> coverage(np.array([[[1.0, 0.0], [0.0, 0.2]]]))
    array([0.2])
    """
    found: Scores = cosines.max(axis=2).min(axis=1)
    return found


def part(cosines: Cosines) -> Scores:
    """How well query elements are met, whatever else an item holds.

    >>> part(np.array([[[1.0, -1.0]]]))
    array([1.])
    """
    found: Scores = cosines.max(axis=2).mean(axis=1)
    return found


def _log_sum(
    values: Float[np.ndarray, "items query_slots slots"], axis: int
) -> Float[np.ndarray, "items left"]:
    top = values.max(axis=axis, keepdims=True)
    found: Float[np.ndarray, "items left"] = top.squeeze(axis) + np.log(
        np.exp(values - top).sum(axis=axis)
    )
    return found


def _shares(count: int, weights: Scores | None) -> Scores:
    given = np.ones(count) if weights is None else np.asarray(weights, dtype=np.float64)
    if (
        given.shape != (count,)
        or not np.isfinite(given).all()
        or given.min() < 0
        or not given.sum()
    ):
        raise OptionError(
            f"weights are {given.tolist()}; give {count} numbers from 0 on, not all of them 0"
        )
    shares: Scores = given / given.sum()
    return shares
