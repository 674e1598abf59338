"""Hubness correction: items that are similar to every query are ranked lower.

The bias of an item is the mean of its k largest similarities to a bank of training queries. It is
subtracted, times a weight, from all scores of the item; images are corrected by caption queries and
captions by image queries. The bank and the weight are fixed before any test query is seen, and
every query is ranked independently, so nothing is learned from the test queries (the correction is
not transductive). The paper does not do this: report both results.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from jaxtyping import Float
from torch import Tensor

from diverset.errors import OptionError
from diverset.evaluation.ensemble import Member
from diverset.evaluation.report import Report
from diverset.evaluation.sets import Protocol, evaluate_members
from diverset.similarity import ImageIndex, similarity_matrix

WEIGHTS = tuple(step / 10 for step in range(11))


@dataclass(frozen=True, eq=False)
class QueryBank:
    """Sets of training queries, and how strongly they correct scores.

    Attributes:
        images: image sets, queries for captions.
        texts: text sets, queries for images.
        neighbours: number of nearest queries whose mean similarity is the bias of an item.
        weight: factor of the biases; 0 corrects nothing.
    """

    images: Float[Tensor, "queries slots dim"]
    texts: Float[Tensor, "text_queries text_slots dim"]
    neighbours: int = 16
    weight: float = 0.5

    def __post_init__(self) -> None:
        size = min(len(self.images), len(self.texts))
        if not 1 <= self.neighbours <= size:
            raise OptionError(
                f"{self.neighbours} neighbours of a bank of {size} queries; give 1 to {size}"
            )

    def biases(self, member: Member) -> tuple[Float[Tensor, " images"], Float[Tensor, " texts"]]:
        """The bias of every image and of every text, not yet weighted."""
        options = {"similarity": member.similarity, **member.options}
        to_texts = similarity_matrix(member.images, self.texts, **options)
        to_images = similarity_matrix(self.images, member.texts, **options)
        return self._bias(to_texts), self._bias(to_images.T)

    def _bias(self, scores: Float[Tensor, "items queries"]) -> Float[Tensor, " items"]:
        return scores.topk(self.neighbours, dim=1).values.mean(dim=1)


def evaluate_corrected(
    members: Sequence[Member],
    banks: Sequence[QueryBank],
    image_index: ImageIndex,
    protocol: str | Protocol = "full",
) -> Report:
    """Evaluate one model, or an ensemble, with hubness correction."""
    corrected = [
        _corrected(member, *bank.biases(member), bank.weight)
        for member, bank in zip(members, banks, strict=True)
    ]
    return evaluate_members(corrected, image_index, protocol)


def choose_weight(member: Member, bank: QueryBank, image_index: ImageIndex) -> QueryBank:
    """The bank with the weight of the largest RSUM; call it on validation data.

    The first of several equal weights is chosen; 0 is in front, so a correction has to pay.
    """
    biases = bank.biases(member)
    rsums = [
        evaluate_members([_corrected(member, *biases, weight)], image_index).rsum
        for weight in WEIGHTS
    ]
    return replace(bank, weight=WEIGHTS[int(np.argmax(rsums))])


def correction_summary(report: Report, banks: Sequence[QueryBank]) -> dict[str, Any]:
    """A corrected evaluation in a few numbers, for the extras of the plain report."""
    to_text, to_image = report.image_to_text, report.text_to_image
    return {
        "rsum": round(report.rsum, 4),
        "image to text": {"R@1": to_text.r1, "R@5": to_text.r5, "R@10": to_text.r10},
        "text to image": {"R@1": to_image.r1, "R@5": to_image.r5, "R@10": to_image.r10},
        "weight, chosen on validation": [bank.weight for bank in banks],
        "training queries": [len(bank.texts) for bank in banks],
    }


def _corrected(member: Member, image_bias: Tensor, text_bias: Tensor, weight: float) -> Member:
    """The bias of a query is the same for all items and does not change its ranking, so both
    directions are corrected at once."""
    return replace(member, image_bias=weight * image_bias, text_bias=weight * text_bias)
