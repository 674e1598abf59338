"""Logistic regression."""

from __future__ import annotations

import numpy as np
from jaxtyping import Float

STEPS, RIDGE = 50, 1e-4


def fit_logistic(
    inputs: Float[np.ndarray, "rows inputs"],
    labels: Float[np.ndarray, " rows"],
    weights: Float[np.ndarray, " rows"],
) -> list[float]:
    """Intercept and coefficients of a weighted logistic regression, by Newton's method.

    >>> rng = np.random.default_rng(0)
    >>> x = rng.normal(size=(4000, 2))
    >>> y = rng.random(4000) < 1 / (1 + np.exp(-(1 + 2 * x[:, 0])))
    >>> [round(coefficient) for coefficient in fit_logistic(x, y.astype(float), np.ones(4000))]
    [1, 2, 0]
    """
    mean, std = inputs.mean(axis=0), inputs.std(axis=0) + 1e-9
    rows = np.column_stack([np.ones(len(inputs)), (inputs - mean) / std])
    shares = weights / weights.sum()
    fitted = np.zeros(rows.shape[1])
    ridge = RIDGE * np.diag([0.0] + [1.0] * len(mean))
    for _ in range(STEPS):
        predicted = 1 / (1 + np.exp(-rows @ fitted))
        gradient = rows.T @ (shares * (predicted - labels)) + ridge @ fitted
        curvature = shares * np.maximum(predicted * (1 - predicted), 1e-9)
        step = np.linalg.solve((rows * curvature[:, None]).T @ rows + ridge, gradient)
        fitted -= np.clip(step, -2, 2)  # a full step can overshoot while predictions are near 0
        if np.abs(step).max() < 1e-8:
            break
    return [float(fitted[0] - (fitted[1:] * mean / std).sum()), *(fitted[1:] / std).tolist()]
