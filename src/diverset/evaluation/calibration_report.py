"""How good a calibration is on images that it was not fitted on."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Float

from diverset.evaluation.calibration import Calibration
from diverset.evaluation.calibration_fit import HITS, Collection, sample
from diverset.evaluation.labelled_queries import ABSENT, PRESENT

FILTERS = (1, 3, 10)  # images that pass a random filter
MIN_HITS = 20  # per printed decile
Values = Float[np.ndarray, " hits"]
Flags = Bool[np.ndarray, " hits"]


def weak_share(
    calibration: Calibration,
    collection: Collection,
    kinds: Sequence[str],
    size: int,
    rng: np.random.Generator,
) -> float:
    """The share of queries of these kinds with weak confidence in collections of a size.

    >>> from diverset.evaluation.labelled_queries import LabelledQuery
    >>> collection = Collection([LabelledQuery(ABSENT, "owl", np.zeros(2, bool))], np.zeros((1, 2)))
    >>> fitted = Calibration(-6.0, similarity=12.0, thresholds=[[-3, -2, -1, 0]] * 3)
    >>> weak_share(fitted, collection, [ABSENT], 2, np.random.default_rng(0))
    1.0
    """
    weak = []
    for query, scores in zip(collection.queries, collection.scores, strict=True):
        if query.kind in kinds:
            images = sample(query, size, rng)
            confidence = calibration.confidence(scores[images], query.text, len(images))
            weak.append(confidence == "weak")
    return float(np.mean(weak)) if weak else float("nan")


def sampled_probabilities(
    calibration: Calibration,
    collection: Collection,
    size: int,
    rng: np.random.Generator,
    kinds: Sequence[str] = PRESENT,
    repeats: int = 1,
) -> tuple[Values, Flags]:
    """Probabilities of the best hits among random images, and whether they are relevant."""
    probabilities, relevant = [], []
    for query, scores in zip(collection.queries, collection.scores, strict=True):
        if query.kind not in kinds:
            continue
        for _ in range(repeats):
            images = rng.permutation(len(scores))[:size]
            hits = images[np.argsort(-scores[images])[:HITS]]
            probabilities.append(calibration.probabilities(scores[hits], query.text))
            relevant.append(query.relevant[hits])
    return np.concatenate(probabilities), np.concatenate(relevant)


def reliability(probabilities: Values, relevant: Flags) -> list[tuple[float, float, int]]:
    """Mean probability, share of relevant hits and number of hits of each decile of probability.

    >>> reliability(np.full(40, 0.25), np.arange(40) < 10)
    [(0.25, 0.25, 40)]
    """
    decile = np.minimum((10 * probabilities).astype(int), 9)
    rows = []
    for number in range(10):
        chosen = decile == number
        if chosen.sum() >= MIN_HITS:
            predicted, observed = probabilities[chosen].mean(), relevant[chosen].mean()
            rows.append((float(predicted), float(observed), int(chosen.sum())))
    return rows


def risk_coverage(
    best: Values, relevant: Flags, coverages: Sequence[float] = (0.1, 0.3, 0.5, 0.7, 0.9, 1.0)
) -> list[tuple[float, float, float]]:
    """Coverage, least probability of the best hit, and risk: how often the best hit is wrong.

    >>> risk_coverage(np.array([0.9, 0.8, 0.2, 0.1]), np.array([1, 0, 1, 0], bool), [0.5])
    [(0.5, 0.8, 0.5)]
    """
    order = np.argsort(-best)
    counts = [max(round(coverage * len(order)), 1) for coverage in coverages]
    return [
        (coverage, float(best[order[count - 1]]), float(1 - relevant[order[:count]].mean()))
        for coverage, count in zip(coverages, counts, strict=True)
    ]


@dataclass(frozen=True)
class CalibrationReport:
    """Measurements on images that the calibration was not fitted on.

    Attributes:
        images: number of these images.
        curve: see `risk_coverage`; half of the queries have no relevant image.
        weak_share: share of queries with weak confidence, by kind.
        deciles: see `reliability`, by the number of images that pass a filter.
    """

    images: int
    curve: list[tuple[float, float, float]]
    weak_share: dict[str, float]
    deciles: dict[int, list[tuple[float, float, int]]]

    @classmethod
    def of(
        cls, calibration: Calibration, collection: Collection, rng: np.random.Generator
    ) -> CalibrationReport:
        images = len(collection)
        calibrated = {
            size: sampled_probabilities(calibration, collection, size, rng, repeats=repeats)
            for size, repeats in [*((size, 20) for size in FILTERS), (images, 1)]
        }
        best, relevant = _best_hits(calibration, collection, rng)
        kinds = (*PRESENT, ABSENT)
        return cls(
            images,
            risk_coverage(best, relevant),
            {kind: weak_share(calibration, collection, [kind], images, rng) for kind in kinds},
            {size: reliability(*hits) for size, hits in calibrated.items()},
        )

    def __str__(self) -> str:
        lines = [
            f"on {self.images:,} other images, half of the queries without a relevant image:",
            "  answered  probability of the best hit  best hit wrong",
        ]
        lines += [
            f"  {coverage:8.0%}  {least:22.0%} or more  {risk:14.0%}"
            for coverage, least, risk in self.curve
        ]
        lines.append("queries with weak confidence (probably nothing like this here):")
        lines += [f"  {kind}: {share:.1%}" for kind, share in self.weak_share.items()]
        lines.append("probability and share of relevant hits, in deciles of probability:")
        for size, deciles in self.deciles.items():
            shown = ", ".join(
                f"{predicted:.0%} {observed:.0%}" for predicted, observed, _ in deciles
            )
            lines.append(f"  {size:,} images: {shown}")
        return "\n".join(lines)


def _best_hits(
    calibration: Calibration, collection: Collection, rng: np.random.Generator
) -> tuple[Values, Flags]:
    """The best hit of every query; from half of them all relevant images are removed first."""
    probabilities, relevant = [], []
    for query, scores in zip(collection.queries, collection.scores, strict=True):
        remove = rng.random() < 0.5 and not query.relevant.all()
        images = np.flatnonzero(~query.relevant) if remove else np.arange(len(scores))
        if query.kind in PRESENT:
            best = images[scores[images].argmax()]
            probabilities.append(calibration.probabilities(scores[[best]], query.text)[0])
            relevant.append(query.relevant[best])
    return np.array(probabilities), np.array(relevant)
