"""How good a calibration is on images that it was not fitted on."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from jaxtyping import Bool, Float, Int

from diverset.evaluation.calibration import Calibration
from diverset.evaluation.calibration_fit import HITS
from diverset.evaluation.labelled_collection import Collection, sample
from diverset.evaluation.labelled_queries import ABSENT, LISTED, PRESENT

MIN_HITS = 20  # per printed decile
SAMPLES = 500  # of queries, for intervals
BEST_HITS, ANY_IMAGE = "the ten best hits", "any image, as under narrow filters"
Values = Float[np.ndarray, " hits"]
Flags = Bool[np.ndarray, " hits"]


class Decile(NamedTuple):
    """Hits whose probabilities are in one decile.

    Attributes:
        said: their mean probability.
        observed: the share of relevant ones.
        margin: half the width of the 95 % interval of the difference, over random clusters.
        hits: number.
    """

    said: float
    observed: float
    margin: float
    hits: int

    def __str__(self) -> str:
        return f"{self.said:.0%} {self.observed:.0%} (±{self.margin:.0%})"


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
    >>> fitted = Calibration(-6.0, similarity=12.0, thresholds=[[0.2, 0.3, 0.4, 0.5]] * 3)
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


def image_probabilities(
    calibration: Calibration,
    collection: Collection,
    best: int | None = HITS,
    kinds: Sequence[str] = PRESENT,
) -> tuple[Float[np.ndarray, "queries hits"], Bool[np.ndarray, "queries hits"]]:
    """Probabilities of the best hits of each query, or of all images, and their relevance.

    A random filter to ten images or fewer has all of them as hits, so that its hits are a random
    sample of all pairs of a query and an image: these are rated with `best=None`.
    """
    probabilities, relevant = [], []
    for query, scores in zip(collection.queries, collection.scores, strict=True):
        if query.kind in kinds:
            hits = np.argsort(-scores)[:best]
            probabilities.append(calibration.probabilities(scores[hits], query.text))
            relevant.append(query.relevant[hits])
    return np.stack(probabilities), np.stack(relevant)


def reliability(
    probabilities: Float[np.ndarray, "queries hits"],
    relevant: Bool[np.ndarray, "queries hits"],
    rng: np.random.Generator,
    *clusters: Int[np.ndarray, "queries hits"],
) -> list[Decile]:
    """Compare probabilities with shares of relevant hits, in deciles of probability.

    Intervals come from random samples of the queries: hits of one query are not independent. If
    other clusters are given, for example a number per text and a number per image, the variances
    of samples of each are added.

    >>> said, relevant = np.full((40, 1), 0.25), np.arange(40)[:, None] < 10
    >>> [decile] = reliability(said, relevant, np.random.default_rng(0))
    >>> decile[:2], decile.hits
    ((0.25, 0.25), 40)
    """
    decile = np.minimum((10 * probabilities).astype(int), 9)
    hits, said, observed = (
        np.bincount(decile.ravel(), weights.ravel(), minlength=10)
        for weights in (np.ones_like(probabilities), probabilities, relevant.astype(float))
    )
    if not clusters:
        queries = np.arange(len(probabilities))[:, None]
        clusters = (np.broadcast_to(queries, probabilities.shape),)
    shown = np.flatnonzero(hits >= MIN_HITS)
    margins = [
        _margins(decile, probabilities - relevant, labels, shown, rng) for labels in clusters
    ]
    means = (said[shown] / hits[shown], observed[shown] / hits[shown])
    columns = (*means, np.linalg.norm(margins, axis=0), hits[shown])
    return [
        Decile(float(said), float(observed), float(margin), int(count))
        for said, observed, margin, count in zip(*columns, strict=True)
    ]


def _margins(
    decile: Int[np.ndarray, "queries hits"],
    excess: Float[np.ndarray, "queries hits"],
    labels: Int[np.ndarray, "queries hits"],
    shown: Int[np.ndarray, " shown"],
    rng: np.random.Generator,
) -> Float[np.ndarray, " shown"]:
    """Half the width of the 95 % interval of the mean excess of deciles, over random clusters."""
    count = int(labels.max()) + 1
    cells = (10 * labels + decile).ravel()
    hits, sums = (
        np.bincount(cells, weights.ravel(), minlength=10 * count).reshape(count, 10)
        for weights in (np.ones_like(excess), excess)
    )
    samples = rng.multinomial(count, np.full(count, 1 / count), SAMPLES)
    with np.errstate(invalid="ignore"):
        means = (samples @ sums[:, shown]) / (samples @ hits[:, shown])
    low, high = np.nanquantile(means, [0.025, 0.975], axis=0)
    margins: Float[np.ndarray, " shown"] = (high - low) / 2
    return margins


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
        weak: share of queries with weak confidence, by kind.
        deciles: see `reliability`; of the best hits, and of any images.
    """

    images: int
    curve: list[tuple[float, float, float]]
    weak: dict[str, float]
    deciles: dict[str, list[Decile]]

    @classmethod
    def of(
        cls, calibration: Calibration, collection: Collection, rng: np.random.Generator
    ) -> CalibrationReport:
        images = len(collection)
        kinds = (*PRESENT, ABSENT, LISTED)
        hits = {
            BEST_HITS: image_probabilities(calibration, collection),
            ANY_IMAGE: image_probabilities(calibration, collection, best=None),
        }
        return cls(
            images,
            risk_coverage(*_best_hits(calibration, collection, rng)),
            {kind: weak_share(calibration, collection, [kind], images, rng) for kind in kinds},
            {name: reliability(*rated, rng) for name, rated in hits.items()},
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
        lines.append("queries with weak confidence:")
        lines += [f"  {kind}: {share:.1%}" for kind, share in self.weak.items()]
        lines.append("probability and share of relevant hits, in deciles of probability:")
        for name, deciles in self.deciles.items():
            lines.append(f"  {name}: {', '.join(map(str, deciles))}")
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
