"""Fit a calibration: labelled queries, their similarities, the regression and the thresholds."""

from __future__ import annotations

import logging
import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch
from jaxtyping import Float

from diverset.data import CaptionDataset
from diverset.evaluation.calibration import LENGTHS, SIZES, Calibration, length_class, text_inputs
from diverset.evaluation.caption_words import CaptionWords
from diverset.evaluation.labelled_queries import ABSENT, LabelledQuery, draw_queries
from diverset.evaluation.logistic import fit_logistic
from diverset.model import Model
from diverset.similarity import similarity_matrix

log = logging.getLogger(__name__)
COLLECTION = 1000  # images per collection; larger ones have fewer relevant images per query
QUERIES = 500  # of each kind per collection
BEST, OTHERS = 30, 30  # hits and random images per query by which the regression is fitted
HITS, KNEE = 10, -1.0  # best hits and log-odds by which the bend is fitted
WEAK = 0.01  # share of queries with a relevant image whose confidence is weak; up to 0.03 on others
MIN_WORD_COUNT = 5  # captions that contain a stored word; rarer words are often misspelt


@dataclass(frozen=True, eq=False)
class Collection:
    """Labelled queries and their similarity to all images of a collection."""

    queries: Sequence[LabelledQuery]
    scores: Float[np.ndarray, "queries images"]

    @classmethod
    def of(
        cls,
        model: Model,
        dataset: CaptionDataset,
        images: Float[torch.Tensor, "images slots dim"],
        nouns: frozenset[str],
        rng: np.random.Generator,
    ) -> Collection:
        """Draw queries of a dataset, and compare them with its encoded images."""
        return cls.search(model, draw_queries(dataset, nouns, QUERIES, rng), images)

    @classmethod
    def search(
        cls,
        model: Model,
        queries: Sequence[LabelledQuery],
        images: Float[torch.Tensor, "images slots dim"],
    ) -> Collection:
        """Compare queries with encoded images."""
        texts = model.encode_texts([query.text for query in queries])
        alpha = model.config.similarity.alpha
        scores = similarity_matrix(texts, images, "smooth_chamfer", alpha=alpha)
        return cls(queries, scores.float().cpu().numpy())

    def __len__(self) -> int:
        return int(self.scores.shape[1])


def fit_calibration(
    collections: Sequence[Collection], vocabulary: CaptionWords, rng: np.random.Generator
) -> Calibration:
    """Fit the regression and the thresholds."""
    common = sorted(vocabulary.counts.items())
    counts = {word: count for word, count in common if count >= MIN_WORD_COUNT}
    pairs = [_pairs(each, counts, vocabulary.captions, rng) for each in collections]
    inputs, relevant, weights = (np.concatenate(column) for column in zip(*pairs, strict=True))
    coefficients = fit_logistic(inputs, relevant, weights)
    if coefficients[1] < 0:
        log.warning("relevant images are less similar than others: every hit is equally probable")
        coefficients = fit_logistic(inputs * [0, 1, 1, 1, 1], relevant, weights)
    bias, similarity, *text = (round(value, 5) for value in coefficients)
    linear = Calibration(bias, similarity, text, captions=vocabulary.captions, words=counts)
    bent = _bend(linear, collections)
    return replace(bent, thresholds=_thresholds(bent, collections, rng))


def _bend(linear: Calibration, collections: Sequence[Collection]) -> Calibration:
    """Fit scale and bend of the log-odds to the best hits, those that people see."""
    logits, relevant = [], []
    for collection in collections:
        for query, scores in zip(collection.queries, collection.scores, strict=True):
            if query.kind != ABSENT:
                best = np.argsort(-scores)[:HITS]
                logits.append(linear.logits(scores[best], query.text))
                relevant.append(query.relevant[best].astype(float))
    of_hits, labels = np.concatenate(logits), np.concatenate(relevant)
    inputs = np.column_stack([of_hits, np.maximum(of_hits - KNEE, 0)])
    offset, scale, bend = fit_logistic(inputs, labels, np.ones(len(labels)))
    if not (scale > 0 and scale + bend > 0):  # too few hits: keep the order of the hits
        return linear
    return replace(
        linear,
        bias=round(offset + scale * linear.bias, 5),
        similarity=round(scale * linear.similarity, 5),
        text=[round(scale * value, 5) for value in linear.text],
        knee=round(offset + scale * KNEE, 5),
        bend=round(bend / scale, 5),
    )


def _pairs(
    collection: Collection, counts: dict[str, int], captions: int, rng: np.random.Generator
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Inputs, labels and weights of the best hits and of random images of every query."""
    best, images = min(BEST, len(collection)), len(collection)
    others = min(OTHERS, images - best)
    weights = np.r_[np.ones(best), np.full(others, (images - best) / max(others, 1))]
    inputs, relevant = [], []
    for query, scores in zip(collection.queries, collection.scores, strict=True):
        order = np.argsort(-scores)
        chosen = np.r_[order[:best], rng.choice(order[best:], others, replace=False)]
        of_text = np.tile(text_inputs(query.text, counts, captions), (len(chosen), 1))
        inputs.append(np.column_stack([scores[chosen], of_text]))
        relevant.append(query.relevant[chosen].astype(float))
    return np.concatenate(inputs), np.concatenate(relevant), np.tile(weights, len(inputs))


def _thresholds(
    calibration: Calibration, collections: Sequence[Collection], rng: np.random.Generator
) -> list[list[float]]:
    """Logits that the best hits of a share `WEAK` of queries with a relevant image do not reach."""
    best: list[list[np.ndarray]] = [[] for _ in range(len(LENGTHS) + 1)]
    for collection in collections:
        for row, query in enumerate(collection.queries):
            if query.kind != ABSENT:
                logits = calibration.logits(collection.scores[row], query.text)
                sampled = [logits[sample(query, size, rng)].max() for size in SIZES]
                best[length_class(query.text)].append(np.array(sampled))
    everything = [row for rows in best for row in rows]
    quantiles = [np.quantile(rows or everything, WEAK, axis=0) for rows in best]
    # The best of more images is at least as good, whatever the samples say.
    return [np.maximum.accumulate(row).round(4).tolist() for row in quantiles]


def sample(query: LabelledQuery, size: int, rng: np.random.Generator) -> np.ndarray:
    """Random images of a collection, one of them relevant to the query if any is."""
    images = rng.permutation(len(query.relevant))[:size]
    if query.own is not None:
        images[0] = query.own
    elif query.relevant.any():
        images[0] = rng.choice(np.flatnonzero(query.relevant))
    return images


def parts(count: int, rng: np.random.Generator) -> tuple[list[np.ndarray], np.ndarray]:
    """Rows of images for fitting, in collections of at most `COLLECTION`, and for testing."""
    rows = rng.permutation(count)
    tested = min(max(count // 5, 10), COLLECTION)
    collections = math.ceil((count - tested) / COLLECTION)
    return np.array_split(rows[tested:], collections), rows[:tested]
