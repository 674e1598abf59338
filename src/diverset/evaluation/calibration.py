"""Calibration: the probability that an image shows what a text says, from their similarity.

The meaning of a similarity depends on the text. The inputs of a logistic regression are the
similarity, the number of words, and how common the rarest word is in the training captions: a model
ranks images for "vulture" too, but has hardly learned what that is. Above a knee the log-odds rise
faster. Nothing depends on the other images of the collection, so a filter does not change the
probability of an image.

The confidence is weak, and a search says that there is probably nothing like this, if the best hit
is below a threshold. The threshold depends on the number of images: the best of a thousand images
is more similar by chance than the best of twelve.
"""

from __future__ import annotations

import json
import logging
import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Literal

import numpy as np
from jaxtyping import Float

from diverset.errors import DataError
from diverset.evaluation.caption_words import words

log = logging.getLogger(__name__)
CALIBRATION_FILE = "calibration.json"
GOOD = 0.5  # probability of the best hit
SIZES = (1, 12, 100, 1000)  # of collections for which thresholds are fitted
LENGTHS = (1, 3)  # classes of texts: one word, two or three, more
Confidence = Literal["good", "possible", "weak"]
Scores = Float[np.ndarray, " hits"]


@dataclass(frozen=True)
class Calibration:
    """A logistic regression from similarities to probabilities, and thresholds of weak confidence.

    Attributes:
        bias: intercept.
        similarity: coefficient of the similarity.
        text: coefficients of `text_inputs`.
        knee: log-odds from which they rise faster.
        bend: how much faster.
        thresholds: logits of the best hit below which the confidence is weak; a row per class
            of `LENGTHS`, a column per size of `SIZES`.
        captions: number of training captions in which words were counted.
        words: number of these captions that contain each word.
        fitted_on: description of the data it was fitted on.
        fingerprint: of the model whose similarities it is for.
    """

    bias: float
    similarity: float
    text: Sequence[float] = field(default_factory=lambda: [0.0] * 4)
    knee: float = 0.0
    bend: float = 0.0
    thresholds: Sequence[Sequence[float]] = field(default_factory=lambda: [[-1e9] * 4] * 3)
    captions: int = 0
    words: Mapping[str, int] = field(default_factory=dict, repr=False)
    fitted_on: str | None = None
    fingerprint: str | None = None

    def logits(self, scores: Sequence[float] | Scores, text: str) -> Scores:
        """Log-odds that images show what a text says, given their similarities."""
        offset = np.dot(self.text, text_inputs(text, self.words, self.captions))
        linear = self.bias + self.similarity * np.asarray(scores, np.float64) + offset
        logits: Scores = linear + self.bend * np.maximum(linear - self.knee, 0)
        return logits

    def probabilities(self, scores: Sequence[float] | Scores, text: str) -> Scores:
        """The probability that images show what a text says, given their similarities.

        >>> Calibration(-6.0, similarity=12.0).probabilities([0.7, 0.5, 0.3], "a dog").round(2)
        array([0.92, 0.5 , 0.08])
        """
        probabilities: Scores = 1 / (1 + np.exp(-self.logits(scores, text)))
        return probabilities

    def confidence(self, scores: Sequence[float] | Scores, text: str, items: int) -> Confidence:
        """The confidence that a collection shows what a text says.

        Args:
            scores: similarities of the hits.
            text: the query.
            items: number of images that were searched.

        >>> fitted = Calibration(-6.0, similarity=12.0, thresholds=[[-3, -2, -1, 0]] * 3)
        >>> [fitted.confidence([score], "a dog", items=100) for score in (0.6, 0.45, 0.4)]
        ['good', 'possible', 'weak']
        """
        best = float(self.logits(scores, text).max())
        if best < self.threshold(text, items):
            return "weak"
        return "good" if best >= math.log(GOOD / (1 - GOOD)) else "possible"

    def threshold(self, text: str, items: int) -> float:
        """The logit of the best hit below which the confidence is weak."""
        row = self.thresholds[length_class(text)]
        return float(np.interp(math.log(max(items, 1)), np.log(SIZES), row))

    def save(self, folder: str | Path) -> None:
        """Write it into the folder of a model."""
        text = json.dumps(asdict(self), ensure_ascii=False)
        (Path(folder) / CALIBRATION_FILE).write_text(text + "\n", encoding="utf-8")


def text_inputs(text: str, counts: Mapping[str, int], captions: int) -> list[float]:
    """Inputs of the regression that depend on the text alone.

    These are whether it is a single word; the logarithm of the number of words; the logarithm of
    how many of a thousand training captions contain the rarest word; and its negative part. The
    last two are divided by the number of words: one rare word among many says little.

    >>> inputs = text_inputs("a dog", {"a": 900, "dog": 99}, captions=1000)
    >>> [round(value, 2) for value in inputs]
    [0.0, 0.69, 2.3, 0.0]
    >>> [round(value, 2) for value in text_inputs("unicorn", {}, captions=100_000)]
    [1.0, 0.0, -4.61, 4.61]
    """
    of_text = words(text)
    length = max(len(of_text), 1)
    rarest = min((counts.get(word, 0) for word in of_text), default=0)
    rate = math.log(1000 * (1 + rarest) / max(captions, 1))
    return [float(length == 1), math.log(length), rate / length, max(-rate, 0.0) / length]


def length_class(text: str) -> int:
    """The class of a text by its number of words.

    >>> [length_class(text) for text in ("dog", "a dog", "a black dog runs")]
    [0, 1, 2]
    """
    return int(np.searchsorted(LENGTHS, len(words(text))))


def load_calibration(folder: str | Path, fingerprint: str) -> Calibration | None:
    """The calibration in the folder of a model; None if it was fitted for another model."""
    file = Path(folder) / CALIBRATION_FILE
    if not file.exists():
        return None
    try:
        calibration = Calibration(**json.loads(file.read_text(encoding="utf-8")))
    except (OSError, ValueError, TypeError) as error:
        raise DataError(
            f"{file} is not a calibration of this version ({error}); fit it again with: diverset "
            "calibrate"
        ) from error
    if calibration.fingerprint != fingerprint:
        log.warning(
            "%s was fitted for the model %s, not %s: hits have similarities instead of "
            "probabilities; fit it again with: diverset calibrate",
            file,
            calibration.fingerprint,
            fingerprint,
        )
        return None
    return calibration
