"""Calibration: the probability that an image shows what a text says, from their similarity.

The meaning of a similarity depends on the text. The inputs of a logistic regression are the
similarity, the number of words, and how common the words are in the training captions: a model
ranks images for "vulture" too, but has hardly learned what that is. Above a knee the log-odds rise
faster. Nothing depends on the other images of the collection, so a filter does not change the
probability of an image.

The confidence is weak, and a search says that there is probably nothing like this, if the evidence
for the query is below a threshold. Evidence is the best similarity and how common the words are.
The threshold depends on the number of images: the best of a thousand images is more similar by
chance than the best of twelve.
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
from diverset.evaluation.query_words import LENGTHS, length_class, text_inputs, word_rates

log = logging.getLogger(__name__)
CALIBRATION_FILE = "calibration.json"
GOOD = 0.5  # probability of the best hit
SIZES = (1, 12, 100, 1000)  # of collections for which thresholds are fitted
CLASSES = len(LENGTHS) + 1
NEVER_WEAK = ((-1e9,) * len(SIZES),) * CLASSES
BEST_ONLY = ((1.0, 0.0, 0.0, 0.0),) * CLASSES
Confidence = Literal["good", "possible", "weak"]
Scores = Float[np.ndarray, " hits"]


@dataclass(frozen=True)
class Calibration:
    """A logistic regression from similarities to probabilities, and thresholds of weak confidence.

    Attributes:
        bias: intercept.
        similarity: coefficient of the similarity.
        slopes: what is added to it for a single word, and per logarithm of the number of words.
        text: coefficients of `text_inputs`.
        knee: log-odds from which they rise faster.
        bends: how much faster, for a single word and for longer texts.
        evidence: coefficients of the best similarity and of `WordRates`; a row per class of
            `LENGTHS`. Their sum is the evidence that the collection contains what a text says.
        thresholds: evidence below which the confidence is weak; a row per class of `LENGTHS`, a
            column per size of `SIZES`.
        captions: number of training captions in which words were counted.
        words: number of these captions that contain each word.
        fitted_on: description of the data it was fitted on.
        fingerprint: of the model whose similarities it is for.
    """

    bias: float
    similarity: float
    slopes: Sequence[float] = (0.0, 0.0)
    text: Sequence[float] = (0.0,) * 6
    knee: float = 0.0
    bends: Sequence[float] = (0.0, 0.0)
    evidence: Sequence[Sequence[float]] = BEST_ONLY
    thresholds: Sequence[Sequence[float]] = NEVER_WEAK
    captions: int = 0
    words: Mapping[str, int] = field(default_factory=dict, repr=False)
    fitted_on: str | None = None
    fingerprint: str | None = None

    def __post_init__(self) -> None:
        shapes = {
            "slopes": (2,),
            "text": (6,),
            "bends": (2,),
            "evidence": (CLASSES, 4),
            "thresholds": (CLASSES, len(SIZES)),
        }
        for name, shape in shapes.items():
            if np.shape(getattr(self, name)) != shape:
                raise ValueError(f"{name} has shape {np.shape(getattr(self, name))}, not {shape}")

    def logits(self, scores: Sequence[float] | Scores, text: str) -> Scores:
        """Log-odds that images show what a text says, given their similarities."""
        inputs = text_inputs(text, self.words, self.captions)
        slope = self.similarity + np.dot(self.slopes, inputs[:2])
        linear = self.bias + slope * np.asarray(scores, np.float64) + np.dot(self.text, inputs)
        bend = self.bends[0 if inputs[0] else 1]
        logits: Scores = linear + bend * np.maximum(linear - self.knee, 0)
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

        >>> fitted = Calibration(-6.0, similarity=12.0, thresholds=[[0.2, 0.3, 0.4, 0.5]] * 3)
        >>> [fitted.confidence([score], "a dog", items=100) for score in (0.6, 0.45, 0.35)]
        ['good', 'possible', 'weak']
        """
        best = float(np.max(scores))
        if self.probabilities([best], text)[0] >= GOOD:
            return "good"
        return "possible" if self.presence(best, text) >= self.threshold(text, items) else "weak"

    def presence(self, best: float, text: str) -> float:
        """The evidence that a collection with this best similarity contains what a text says."""
        rates = word_rates(text, self.words, self.captions)
        return float(np.dot(self.evidence[length_class(text)], [best, *rates]))

    def threshold(self, text: str, items: int) -> float:
        """The evidence below which the confidence is weak."""
        row = self.thresholds[length_class(text)]
        return float(np.interp(math.log(max(items, 1)), np.log(SIZES), row))

    def save(self, folder: str | Path) -> None:
        """Write it into the folder of a model."""
        text = json.dumps(asdict(self), ensure_ascii=False)
        (Path(folder) / CALIBRATION_FILE).write_text(text + "\n", encoding="utf-8")


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
