"""Fit a calibration: the regression from similarities to probabilities, and weak confidence."""

from __future__ import annotations

import logging
import math
from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from jaxtyping import Bool, Float

from diverset.evaluation.calibration import Calibration
from diverset.evaluation.caption_words import CaptionWords
from diverset.evaluation.labelled_collection import Collection
from diverset.evaluation.labelled_queries import ABSENT, LISTED
from diverset.evaluation.logistic import fit_logistic
from diverset.evaluation.query_words import text_inputs
from diverset.evaluation.weak_fit import fit_weak

log = logging.getLogger(__name__)
BEST, OTHERS = 30, 30  # hits and random images per query by which the regression is fitted
HITS = 10  # best hits that people look at
KNEE, LEAST = -1.0, -4.0  # log-odds from which they rise faster; from which the bend is fitted
SINGLE = 3  # column of the inputs: whether the text is a single word
LONGEST = 40  # words of a text up to which probabilities must rise with the similarity
MIN_WORD_COUNT = 5  # captions that contain a stored word; rarer words are often misspelt


class Pairs(NamedTuple):
    """Pairs of a query and an image.

    Attributes:
        inputs: the similarity, its products with the first two inputs of the text, `text_inputs`.
        relevant: 1 if the image is relevant, else 0.
        weights: number of pairs that each stands for, the same sum for every dataset.
        hits: the same for the best hits of every query, 0 for other pairs.
        present: whether the query has a relevant image.
    """

    inputs: Float[np.ndarray, "pairs inputs"]
    relevant: Float[np.ndarray, " pairs"]
    weights: Float[np.ndarray, " pairs"]
    hits: Float[np.ndarray, " pairs"]
    present: Bool[np.ndarray, " pairs"]


def fit_calibration(
    collections: Sequence[Collection], vocabulary: CaptionWords, rng: np.random.Generator
) -> Calibration:
    """Fit the probabilities and the thresholds of weak confidence."""
    return fit_weak(fit_regression(collections, vocabulary, rng), collections, rng)


def fit_regression(
    collections: Sequence[Collection], vocabulary: CaptionWords, rng: np.random.Generator
) -> Calibration:
    """Fit the probabilities."""
    common = sorted(vocabulary.counts.items())
    counts = {word: count for word, count in common if count >= MIN_WORD_COUNT}
    pairs = _all_pairs(collections, counts, vocabulary.captions, rng)
    inputs, relevant, weights = pairs[:3]
    coefficients = fit_logistic(inputs, relevant, weights)
    if not _rises(coefficients[1:4]):  # too few pairs: the same slope for all texts
        coefficients = fit_logistic(inputs * _mask(slopes=False), relevant, weights)
    if not _rises(coefficients[1:4]):
        log.warning("relevant images are less similar than others: every hit is equally probable")
        coefficients = fit_logistic(
            inputs * _mask(slopes=False, similarity=False), relevant, weights
        )
    fitted = np.array(coefficients)
    bias, scale, *bends = _bend(fitted[0] + inputs @ fitted[1:], pairs)
    scaled = [round(float(scale * value), 5) for value in fitted[1:]]
    return Calibration(
        bias=round(float(bias + scale * fitted[0]), 5),
        similarity=scaled[0],
        slopes=scaled[1:3],
        text=scaled[3:],
        knee=round(bias + scale * KNEE, 5),
        bends=[round(bend / scale, 5) for bend in bends],
        captions=vocabulary.captions,
        words=counts,
    )


def _mask(slopes: bool = True, similarity: bool = True) -> Float[np.ndarray, " inputs"]:
    """Ones, and zeros for the inputs that are left out."""
    return np.array([similarity, slopes, slopes, *[True] * 6], dtype=float)


def _rises(slopes: Sequence[float]) -> bool:
    """Whether log-odds rise with the similarity for every length of text."""
    common, single, per_log = slopes
    return common + single > 0 and all(
        common + per_log * math.log(length) > 0 for length in (2, LONGEST)
    )


def _bend(logits: Float[np.ndarray, " pairs"], pairs: Pairs) -> list[float]:
    """Offset and scale of the log-odds, and their bends for single words and for longer texts.

    They are fitted to the best hits, which people look at, and to half the weight of any pairs, as
    narrow filters have them.
    """
    unchanged = [0.0, 1.0, 0.0, 0.0]
    chosen = (logits > LEAST) & pairs.present
    if not chosen.any():
        return unchanged
    weights = (pairs.hits + pairs.weights / 2)[chosen]
    above, single = np.maximum(logits - KNEE, 0), pairs.inputs[:, SINGLE]
    inputs = np.column_stack([logits, above * single, above * (1 - single)])[chosen]
    fitted = fit_logistic(inputs, pairs.relevant[chosen], weights / weights.mean())
    _, scale, *bends = fitted
    if not (scale > 0 and scale + min(bends) > 0):  # too few hits: keep the order of the hits
        return unchanged
    return fitted


def _all_pairs(
    collections: Sequence[Collection],
    counts: dict[str, int],
    captions: int,
    rng: np.random.Generator,
) -> Pairs:
    """Pairs of all collections; every dataset has the same weight."""
    of_datasets: Counter[str] = Counter()
    for collection in collections:
        of_datasets[collection.dataset] += collection.scores.size
    columns = []
    for collection in collections:
        scale = 1 / of_datasets[collection.dataset]
        columns.append(_pairs(collection, counts, captions, scale, rng))
    return Pairs(*(np.concatenate(column) for column in zip(*columns, strict=True)))


def _pairs(
    collection: Collection,
    counts: dict[str, int],
    captions: int,
    scale: float,
    rng: np.random.Generator,
) -> Pairs:
    """The best hits and random images of every query."""
    best, images = min(BEST, len(collection)), len(collection)
    others = min(OTHERS, images - best)
    weights = scale * np.r_[np.ones(best), np.full(others, (images - best) / max(others, 1))]
    hits = scale * (np.arange(best + others) < HITS)
    inputs, relevant, present = [], [], []
    for query, scores in zip(collection.queries, collection.scores, strict=True):
        if query.kind == LISTED:
            continue
        order = np.argsort(-scores)
        chosen = np.r_[order[:best], rng.choice(order[best:], others, replace=False)]
        of_text = np.tile(text_inputs(query.text, counts, captions), (len(chosen), 1))
        similarity = scores[chosen, None]
        inputs.append(np.column_stack([similarity, similarity * of_text[:, :2], of_text]))
        relevant.append(query.relevant[chosen].astype(float))
        present.append(np.full(len(chosen), query.kind != ABSENT))
    return Pairs(
        np.concatenate(inputs),
        np.concatenate(relevant),
        np.tile(weights, len(inputs)),
        np.tile(hits, len(inputs)),
        np.concatenate(present),
    )
