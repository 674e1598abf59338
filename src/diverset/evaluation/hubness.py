"""Taking back what hubs win: items that are near to every query are ranked lower.

An item's bias is the mean of its k largest similarities to a bank of training queries, and it is
subtracted, times a weight, from all scores of that item (images have a bias against captions as
queries, captions one against images). The bank and the weight are fixed before any test query is
seen and every query is ranked by itself, so nothing is learned from the test queries: it is not
transductive. The paper does not do this; report it beside the plain numbers, not instead.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from diverset.errors import OptionError
from diverset.evaluation.members import Member, Owners
from diverset.evaluation.protocols import Protocol, run_protocol
from diverset.evaluation.recall import Ranks, rsum
from diverset.evaluation.report import Report
from diverset.similarity import SIMILARITIES, Similarity, similarity_matrix

WEIGHTS = tuple(round(0.1 * step, 1) for step in range(11))


@dataclass(frozen=True, eq=False)
class Bank:
    """Sets of training queries, and how much they count.

    Attributes:
        images: image sets, queries for captions.
        texts: text sets, queries for images.
        neighbours: how many of an item's nearest queries make its bias.
        weight: what biases are multiplied by; 0 corrects nothing.
    """

    images: Float[Tensor, "queries slots dim"]
    texts: Float[Tensor, "text_queries text_slots dim"]
    neighbours: int = 16
    weight: float = 0.5

    def __post_init__(self) -> None:
        most = min(len(self.images), len(self.texts))
        if not 1 <= self.neighbours <= most:
            raise OptionError(
                f"{self.neighbours} neighbours of a bank of {most} queries; give 1 to {most}"
            )

    def biases(self, member: Member) -> tuple[Float[Tensor, " images"], Float[Tensor, " texts"]]:
        """The bias of every image and of every text, not yet weighted."""
        how, options = member.similarity, member.options
        of_images = similarity_matrix(member.images, self.texts, how, **options)
        of_texts = similarity_matrix(self.images, member.texts, how, **options)
        return self._top(of_images), self._top(of_texts.T)

    def _top(self, scores: Float[Tensor, "items queries"]) -> Float[Tensor, " items"]:
        return scores.topk(self.neighbours, dim=1).values.mean(dim=1)


def evaluate_corrected(
    members: Sequence[Member],
    banks: Sequence[Bank],
    owners: Owners,
    protocol: str | Protocol = "full",
    extras: Mapping[str, Any] | None = None,
) -> Report:
    """Evaluate one model, or an ensemble, with the bias of every item taken back."""
    biases = [bank.biases(member) for member, bank in zip(members, banks, strict=True)]
    return _report(members, biases, [bank.weight for bank in banks], owners, protocol, extras)


def choose_weight(
    member: Member, bank: Bank, owners: Owners, weights: Sequence[float] = WEIGHTS
) -> Bank:
    """The bank with the weight whose RSUM is largest; call it on validation data.

    Of weights with equal RSUM the first is taken, so with 0 in front a correction has to pay.
    """
    biases = [bank.biases(member)]
    found = [_report([member], biases, [weight], owners, "full", None).rsum for weight in weights]
    return replace(bank, weight=weights[int(np.argmax(found))])


def _report(
    members: Sequence[Member],
    biases: Sequence[tuple[Tensor, Tensor]],
    weights: Sequence[float],
    owners: Owners,
    protocol: str | Protocol,
    extras: Mapping[str, Any] | None,
) -> Report:
    """Each direction is ranked by its own scores: only the items that are sought are corrected."""
    by_images, by_texts = [], []
    for member, (of_images, of_texts), weight in zip(members, biases, weights, strict=True):
        images = _with_bias(member.images, weight * of_images)
        texts = _with_bias(member.texts, weight * of_texts)
        how = _plain(member.similarity, member.options)
        by_images.append(replace(member, images=images, similarity=_Less(how, 0), options={}))
        by_texts.append(replace(member, texts=texts, similarity=_Less(how, 1), options={}))
    for_texts = run_protocol(by_images, owners, protocol)
    for_images = run_protocol(by_texts, owners, protocol)
    ranks = Ranks(
        for_images.ranks.image_to_text, for_texts.ranks.text_to_image, for_texts.ranks.owners
    )
    return Report(
        protocol=for_texts.protocol.name,
        n_images=len(members[0].images),
        n_captions=len(members[0].texts),
        image_to_text=for_images.image_to_text,
        text_to_image=for_texts.text_to_image,
        extras=dict(extras or {}),
        ranks=ranks,
    )


def summary(report: Report, banks: Sequence[Bank]) -> dict[str, Any]:
    """A corrected evaluation in a few numbers, for the extras of the plain one."""
    forth, back = report.image_to_text, report.text_to_image
    return {
        "rsum": round(rsum(forth, back), 4),
        "image to text": {"R@1": forth.r1, "R@5": forth.r5, "R@10": forth.r10},
        "text to image": {"R@1": back.r1, "R@5": back.r5, "R@10": back.r10},
        "weight, chosen on validation": [bank.weight for bank in banks],
        "training queries": [len(bank.texts) for bank in banks],
    }


def _with_bias(sets: Tensor, bias: Tensor) -> Tensor:
    """Sets with one more row each, whose first number is the item's bias: it travels with it."""
    row = torch.zeros_like(sets[:, :1])
    row[:, 0, 0] = bias.to(sets)
    return torch.cat([sets, row], dim=1)


class _Less:
    """A similarity that reads one side's bias from its last row and subtracts it."""

    def __init__(self, similarity: Similarity, side: int) -> None:
        self.similarity, self.side = similarity, side

    def __call__(self, images: Tensor, texts: Tensor) -> Tensor:
        if self.side == 0:
            return self.similarity(images[:, :-1], texts) - images[:, -1, :1]
        return self.similarity(images, texts[:, :-1]) - texts[:, -1, 0]


def _plain(similarity: str | Similarity, options: Mapping[str, Any]) -> Similarity:
    chosen = SIMILARITIES[similarity] if isinstance(similarity, str) else similarity
    return lambda images, texts: chosen(images, texts, **options)
