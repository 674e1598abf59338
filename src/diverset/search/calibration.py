"""Scores that mean something: from a similarity to how likely it is that the hit is right.

What a score means depends on what else the collection offers for the same words: one picture at
0.55 above five at 0.30 is luck more often than one above five at 0.53. So a hit's score and the
mean of the answer's five best go through a logistic, fitted on queries whose object is there and
on the same queries after every picture of it was taken out (`benchmarks/no_match.py`). A z-score
over the collection, which suggests itself, tells next to nothing: docs/log.md.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
from jaxtyping import Float

from diverset.errors import DataError

FILE = "calibration.json"
BEST = 5  # hits whose mean is the background
Numbers = Float[np.ndarray, " hits"]


@dataclass(frozen=True)
class Calibration:
    """A logistic over a hit's score and the mean of the five best.

    Attributes:
        bias, score, best: its coefficients.
        cutoff: below this probability of the best hit, nothing matches well.
        fitted_on: where the numbers come from.
    """

    bias: float
    score: float
    best: float
    cutoff: float = 0.4
    fitted_on: str = ""

    def probabilities(self, scores: Sequence[float] | Numbers) -> Numbers:
        """How likely each hit of an answer is right; scores in the order of the answer.

        >>> DEFAULT.probabilities([0.7, 0.65, 0.6, 0.6, 0.6]).round(2)[:2]
        array([0.84, 0.79])
        """
        array = np.asarray(scores, dtype=np.float64)
        if not len(array):
            return array
        background = np.sort(array)[::-1][:BEST].mean()
        logits = self.bias + self.score * array + self.best * background
        found: Numbers = 1 / (1 + np.exp(-logits))
        return found

    def save(self, folder: str | Path) -> None:
        """Beside a model, where a library looks for it."""
        text = json.dumps(asdict(self), indent=2)
        (Path(folder) / FILE).write_text(text + "\n", encoding="utf-8")


DEFAULT = Calibration(-15.05, 7.72, 17.99, fitted_on="Flickr8k val, sets of 4, alpha 16")


def load_calibration(folder: str | Path) -> Calibration:
    """That of a model's folder, or the default one."""
    file = Path(folder) / FILE
    if not file.exists():
        return DEFAULT
    try:
        return Calibration(**json.loads(file.read_text(encoding="utf-8")))
    except (OSError, ValueError, TypeError) as error:
        raise DataError(f"{file} is no calibration ({error}); remove it or fit it again") from error


def fit(
    features: Float[np.ndarray, "hits 2"], right: Numbers, steps: int = 50, ridge: float = 1e-3
) -> tuple[float, float, float]:
    """Bias and two coefficients of the logistic, by Newton's method.

    >>> chance = np.random.default_rng(0)
    >>> x = chance.normal(size=(4000, 2))
    >>> y = chance.random(4000) < 1 / (1 + np.exp(-(1 + 2 * x[:, 0])))
    >>> [round(one) for one in fit(x, y.astype(float))]
    [1, 2, 0]
    """
    mean, std = features.mean(axis=0), features.std(axis=0) + 1e-9
    rows = np.column_stack([np.ones(len(features)), (features - mean) / std])
    found = np.zeros(rows.shape[1])
    for _ in range(steps):
        guess = 1 / (1 + np.exp(-rows @ found))
        slope = rows.T @ (guess - right) / len(rows) + ridge * np.r_[0, found[1:]]
        curve = (rows * (guess * (1 - guess))[:, None]).T @ rows / len(rows)
        found -= np.linalg.solve(curve + ridge * np.eye(len(found)), slope)
    score, best = found[1:] / std
    return float(found[0] - (found[1:] * mean / std).sum()), float(score), float(best)
