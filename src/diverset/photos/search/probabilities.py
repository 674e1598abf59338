"""Probabilities of hits and the confidence in them."""

from __future__ import annotations

import numpy as np
from jaxtyping import Float

from diverset.evaluation.calibration import Calibration, Confidence
from diverset.photos.search.query import EXCLUDED, CombinedScore, SearchQuery
from diverset.photos.search.scoring import Cosines


def hit_probabilities(
    calibration: Calibration, query: SearchQuery, score: CombinedScore, cosines: Cosines, items: int
) -> tuple[Float[np.ndarray, " hits"], Confidence]:
    """The probabilities of the hits of a query with a text, best first, and the confidence in all.

    All texts of the query count as one: an image that shows several things is less similar to each
    of them alone. The probability that an excluded text is in the image reduces that of a hit.
    `items` is the number of images that were searched.
    """
    text, scores = query.joint_texts[0], score.per_clause(cosines)
    whole = scores[score.calibrated_rows()].mean(axis=0)
    probabilities = calibration.probabilities(whole, text)
    excluded = scores[[clause.role == EXCLUDED for clause in score.clauses]]
    for excluded_text, of_text in zip(query.excluded, excluded, strict=True):
        probabilities = probabilities * (1 - calibration.probabilities(of_text, excluded_text))
    # Other clauses may have ranked a hit lower: it is at most as probable as those before it.
    decreasing: Float[np.ndarray, " hits"] = np.minimum.accumulate(probabilities)
    return decreasing, calibration.confidence(whole, text, items)
