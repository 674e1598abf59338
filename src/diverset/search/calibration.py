"""Scores that mean something: from a similarity to how likely it is that the hit is right.

What a score means depends on what else the collection offers for the same words: one picture at
0.55 above five at 0.30 is luck more often than one above five at 0.53. And it depends on how many
there are to choose from: the five best of a thousand reach higher by chance than the five best of
sixty. So a hit's score, the mean of the answer's five best, and how high five of so many reach by
chance go through a logistic. It is fitted on queries whose object is there and on queries after
every picture of it was taken out, of collections of many sizes (`benchmarks/no_match.py`). Mean and
spread of the collection's own scores, which suggest themselves, tell next to nothing: docs/log.md.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import NormalDist

import numpy as np
from jaxtyping import Float

from diverset.errors import DataError

log = logging.getLogger(__name__)
FILE = "calibration.json"
BEST = 5  # hits whose mean is the background
COMPANY, LOWER = 10, 0.7  # so many hits with so much of the cut-off on average lower it to that
Numbers = Float[np.ndarray, " hits"]


@dataclass(frozen=True)
class Calibration:
    """A logistic over a hit's score, the mean of the five best and `reach` of the collection.

    Attributes:
        bias, score, best, reach: its coefficients.
        cutoff: below this probability of the best hit, nothing matches well.
        fitted_on: where the numbers come from.
        fingerprint: of the model whose similarities they are for.
    """

    bias: float
    score: float
    best: float
    reach: float = 0.0
    cutoff: float = 0.4
    fitted_on: str = ""
    fingerprint: str = ""

    def probabilities(self, scores: Sequence[float] | Numbers, items: int) -> Numbers:
        """How likely each hit of an answer is right.

        Args:
            scores: at least five where there are so many, best first.
            items: how many the answer was chosen from.

        >>> logistic = Calibration(bias=-6.0, score=8.0, best=12.0, reach=-2.0)
        >>> logistic.probabilities([0.7, 0.65, 0.6, 0.6, 0.6], items=1000).round(2)[:2]
        array([0.81, 0.74])
        """
        array = np.asarray(scores, dtype=np.float64)
        if not len(array):
            return array
        background = np.sort(array)[::-1][:BEST].mean()
        logits = self.bias + self.score * array + self.best * background
        logits = logits + self.reach * reach(items)
        found: Numbers = 1 / (1 + np.exp(-logits))
        return found

    def cutoff_for(self, likely: Numbers) -> float:
        """From which probability hits of an answer are believed, best first.

        A broad word such as "dog" has many right hits and no outstanding one: ten that together
        come near the cut-off are believed from a lower one on.

        >>> logistic = Calibration(bias=0.0, score=1.0, best=0.0, cutoff=0.4)
        >>> [round(logistic.cutoff_for(np.full(count, 0.3)), 2) for count in (10, 9)]
        [0.28, 0.4]
        """
        lower = LOWER * self.cutoff
        together = len(likely) >= COMPANY and likely[:COMPANY].mean() >= lower
        return lower if together else self.cutoff

    def save(self, folder: str | Path) -> None:
        """Beside a model, where a library looks for it."""
        text = json.dumps(asdict(self), indent=2)
        (Path(folder) / FILE).write_text(text + "\n", encoding="utf-8")


def reach(items: int, count: int = BEST) -> float:
    """The mean of the largest `count` of so many normal numbers, in standard deviations (Blom).

    >>> [round(reach(items), 2) for items in (1, 5, 60, 1000, 100_000)]
    [0.0, 0.0, 1.79, 2.85, 4.09]
    """
    count = min(count, items)
    ranks = range(1, count + 1)
    normal = NormalDist()
    found = [normal.inv_cdf((items + 1 - rank - 0.375) / (items + 0.25)) for rank in ranks]
    return sum(found) / max(count, 1)


def load_calibration(folder: str | Path, fingerprint: str) -> Calibration | None:
    """That of a model's folder, if it was fitted for this very model; another's would mislead."""
    file = Path(folder) / FILE
    if not file.exists():
        return None
    try:
        found = Calibration(**json.loads(file.read_text(encoding="utf-8")))
    except (OSError, ValueError, TypeError) as error:
        raise DataError(f"{file} is no calibration ({error}); remove it or fit it again") from error
    if found.fingerprint != fingerprint:
        log.warning(
            "%s is for the model %s, not %s: hits show similarities instead of percentages; fit it "
            "again, or remove it",
            file,
            found.fingerprint or "of no name",
            fingerprint,
        )
        return None
    return found


def fit(
    features: Float[np.ndarray, "hits features"],
    right: Numbers,
    steps: int = 50,
    ridge: float = 1e-3,
) -> list[float]:
    """Bias and coefficients of the logistic, by Newton's method.

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
    return [float(found[0] - (found[1:] * mean / std).sum()), *(found[1:] / std).tolist()]
