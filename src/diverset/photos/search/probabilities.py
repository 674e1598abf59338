"""Probabilities of hits and the confidence in them."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from jaxtyping import Float

from diverset.evaluation.calibration import Calibration, Confidence
from diverset.photos.search.query import EXCLUDED, CombinedScore, SearchQuery
from diverset.photos.search.scoring import Cosines


class HitProbabilities(NamedTuple):
    """The probability of each hit, in the order of the ranking, and the confidence in all."""

    values: Float[np.ndarray, " hits"]
    confidence: Confidence


def hit_probabilities(
    calibration: Calibration, query: SearchQuery, score: CombinedScore, cosines: Cosines, items: int
) -> HitProbabilities:
    """The probabilities of the hits of a query with a text.

    All texts of the query count as one: an image that shows several things is less similar to each
    of them alone. The probability that an excluded text is in the image reduces that of a hit.

    Args:
        calibration: of the model.
        query: with a main or a required text.
        score: by which the hits are ranked.
        cosines: of the hits, best first.
        items: number of images that were searched.
    """
    text, scores = query.joint_texts[0], score.per_clause(cosines)
    whole = scores[score.calibrated_rows()].mean(axis=0)
    probabilities = calibration.probabilities(whole, text)
    excluded = scores[[clause.role == EXCLUDED for clause in score.clauses]]
    for excluded_text, of_text in zip(query.excluded, excluded, strict=True):
        probabilities = probabilities * (1 - calibration.probabilities(of_text, excluded_text))
    # Other clauses may have ranked a hit lower: it is at most as probable as those before it.
    decreasing: Float[np.ndarray, " hits"] = np.minimum.accumulate(probabilities)
    return HitProbabilities(decreasing, calibration.confidence(whole, text, items))
