"""What a search of a library returns."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
from jaxtyping import Float

from diverset.evaluation.calibration import Confidence
from diverset.index.set_store import Metadata
from diverset.photos.element_numbers import element_number


@dataclass(frozen=True)
class SearchHit:
    """A hit of the index, with its probability, its copies and what it matched by.

    The probability is that of showing the texts of the query, in the order of the ranking; None
    without a text, or if the model has no calibration. The contributions tell which query elements
    matched which elements of the hit (Eq. 8), of the score that ranked it, not only of the
    smooth-Chamfer similarity.
    """

    id: str  # path of an image, or table and row of a text
    score: float
    probability: float | None
    metadata: Metadata
    contributions: Float[np.ndarray, "query_slots slots"] = field(repr=False)
    copies: Sequence[str] = ()  # paths of other files with the same content

    @cached_property
    def shares(self) -> Float[np.ndarray, " slots"]:
        """The contribution of each element of the hit."""
        shares: Float[np.ndarray, " slots"] = self.contributions.sum(axis=0)
        return shares

    @property
    def element(self) -> int:
        """The element with the largest contribution, from 0."""
        return int(self.shares.argmax())

    @property
    def label(self) -> str:
        """The probability in percent; without one, the score."""
        return f"{self.score:.3f}" if self.probability is None else f"{self.probability:.0%}"

    def as_json(self) -> dict[str, Any]:
        """Rounded, with the number of the element, as people read it."""
        return {
            "id": self.id,
            "score": round(self.score, 5),
            "probability": None if self.probability is None else round(self.probability, 4),
            "element": element_number(self.element),
            "shares": self.shares.round(4).tolist(),
            "copies": list(self.copies),
            "metadata": dict(self.metadata),
        }


@dataclass(frozen=True)
class SearchResult:
    """Hits, best first, and the confidence that the collection contains what was searched for."""

    hits: list[SearchHit]
    confidence: Confidence | None = None  # None without probabilities
    note: str | None = None  # what a person should know about the hits
    total: int = 0  # number of images that pass the filter, of which the hits are the best

    def as_json(self, groups: Sequence[Sequence[SearchHit]]) -> dict[str, Any]:
        """As the command line and the server return it, with the hits in groups."""
        return {
            "confidence": self.confidence,
            "note": self.note,
            "total": self.total,
            "groups": [[hit.as_json() for hit in group] for group in groups if group],
        }
