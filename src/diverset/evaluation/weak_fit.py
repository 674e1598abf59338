"""Fit when the confidence is weak: "probably nothing like this here".

The evidence for a query separates queries with a relevant image from two kinds without: things of a
list that photographs rarely show, and the same queries after all relevant images were removed. The
threshold is then set by false denials alone: of every dataset, length of text and size of
collection, at most a share `WEAK` of the queries with a relevant image may have weak confidence.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np
from jaxtyping import Float, Int

from diverset.evaluation.calibration import BEST_ONLY, CLASSES, SIZES, Calibration
from diverset.evaluation.labelled_collection import Collection, sample, sample_wrong
from diverset.evaluation.labelled_queries import LISTED, PRESENT, LabelledQuery
from diverset.evaluation.logistic import fit_logistic
from diverset.evaluation.query_words import length_class, word_rates

WEAK = 0.015  # share of queries with a relevant image; at most 0.03 on other images
LISTED_WEIGHT = 4.0  # of listed things, beside queries whose relevant images were removed
Draw = Callable[[LabelledQuery, int, np.random.Generator], Int[np.ndarray, " images"]]
Evidence = Float[np.ndarray, "queries sizes inputs"]  # of `Calibration.evidence`


def fit_weak(
    calibration: Calibration, collections: Sequence[Collection], rng: np.random.Generator
) -> Calibration:
    """Fit the evidence and its thresholds."""
    datasets = list(dict.fromkeys(collection.dataset for collection in collections))
    queries = [
        (collection, row, query)
        for collection in collections
        for row, query in enumerate(collection.queries)
    ]
    evidence, thresholds = [], []
    for number in range(CLASSES):
        of_class = [each for each in queries if length_class(each[2].text) == number]
        present = [each for each in of_class if each[2].kind in PRESENT]
        listed = [each for each in of_class if each[2].kind == LISTED]
        removed = [each for each in present if not each[2].relevant.all()]
        there = _inputs(calibration, present, sample, rng)
        lists = _inputs(calibration, listed, sample, rng)
        gone = _inputs(calibration, removed, sample_wrong, rng)
        coefficients = _coefficients(there, [(lists, LISTED_WEIGHT), (gone, 1.0)])
        names = np.array([collection.dataset for collection, _, _ in present])
        evidence.append(coefficients)
        thresholds.append(_thresholds(there @ coefficients, names, datasets))
    return replace(calibration, evidence=evidence, thresholds=thresholds)


def _inputs(
    calibration: Calibration,
    queries: Sequence[tuple[Collection, int, LabelledQuery]],
    draw: Draw,
    rng: np.random.Generator,
) -> Evidence:
    """The best similarity in a random collection of each size, and the rates of the words."""
    inputs = np.zeros((len(queries), len(SIZES), 4))
    for number, (collection, row, query) in enumerate(queries):
        scores = collection.scores[row]
        inputs[number, :, 0] = [scores[draw(query, size, rng)].max() for size in SIZES]
        inputs[number, :, 1:] = word_rates(query.text, calibration.words, calibration.captions)
    return inputs


def _coefficients(there: Evidence, absent: Sequence[tuple[Evidence, float]]) -> list[float]:
    """Coefficients that separate present from absent queries in collections of any size."""
    absent = [(inputs, weight) for inputs, weight in absent if len(inputs)]
    if not len(there) or not absent:
        return list(BEST_ONLY[0])
    total = sum(weight for _, weight in absent)
    groups = [(there, 1.0, 1.0), *((inputs, 0.0, weight / total) for inputs, weight in absent)]
    rows, labels, weights = [], [], []
    for inputs, label, weight in groups:
        sizes = np.broadcast_to(np.log(SIZES)[:, None], (*inputs.shape[:2], 1))
        rows.append(np.concatenate([inputs, sizes], axis=2).reshape(-1, 5))
        labels.append(np.full(len(rows[-1]), label))
        weights.append(np.full(len(rows[-1]), weight / len(rows[-1])))
    fitted = fit_logistic(np.concatenate(rows), np.concatenate(labels), np.concatenate(weights))
    best = fitted[1]
    if best <= 0:
        return list(BEST_ONLY[0])
    return [1.0, *(round(value / best, 5) for value in fitted[2:5])]


def _thresholds(
    evidence: Float[np.ndarray, "queries sizes"], names: np.ndarray, datasets: Sequence[str]
) -> list[float]:
    """The evidence that a share `WEAK` of the queries of a dataset do not reach."""
    of_datasets = [evidence[names == name] for name in datasets if (names == name).any()]
    if not of_datasets:
        return [-1e9] * len(SIZES)
    least = np.min([np.quantile(rows, WEAK, axis=0) for rows in of_datasets], axis=0)
    # The best of more images is at least as good, whatever the samples say.
    thresholds: list[float] = np.maximum.accumulate(least).round(4).tolist()
    return thresholds
