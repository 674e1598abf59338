"""Items with identical sets, which tie whatever rounding makes of their scores.

A matrix product may round the same pair of vectors differently in different places, so that a
picture that stands twice in a collection could beat its own copy by the last bit. This module
finds such items and takes such victories back; it does not know how scores are made.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

import torch
from jaxtyping import Float, Int
from torch import Tensor

from diverset.evaluation.members import Member

STEP = 256
SLACK = 1e-5  # more than rounding can do to scores of identical sets


class Twins:
    """Foreign items with the very sets of the match: they tie with it."""

    def __init__(
        self,
        members: Sequence[Member],
        order: Tensor | None,
        by_image: Int[Tensor, " texts"],
        own: Float[Tensor, " texts"],
        best: Float[Tensor, " images"],
    ) -> None:
        self.own, self.best = own, best
        images = groups_of_equals([member.images for member in members])
        texts = groups_of_equals([member.texts for member in members])
        if images is not None:
            self.images, self.wanted_image = images.to(own.device), images[by_image].to(own.device)
        if texts is not None:
            texts = texts if order is None else texts[order]
            at_best = (own.cpu() == best.cpu()[by_image]).nonzero()[:, 0]
            wanted = torch.empty(len(best), dtype=torch.int64)
            wanted[by_image[at_best]] = texts[at_best]
            self.texts, self.wanted_text = texts.to(own.device), wanted.to(own.device)
        self.among_images, self.among_texts = images is not None, texts is not None

    def spoil(
        self, for_text: Tensor, for_image: Tensor, rows: slice, columns: slice, scores: Tensor
    ) -> None:
        """Take back "less than the match" where only rounding says so."""
        if self.among_images:
            same = self.images[rows, None] == self.wanted_image[columns]
            for_text &= ~(same & (scores >= self.own[columns] - SLACK))
        if self.among_texts:
            same = self.texts[columns] == self.wanted_text[rows, None]
            for_image &= ~(same & (scores >= self.best[rows, None] - SLACK))


def groups_of_equals(
    members: Sequence[Float[Tensor, "items elements dim"]],
) -> Int[Tensor, " items"] | None:
    """One number an item, the same for items whose sets are identical in every member.

    None where all items differ, which is the rule.

    >>> sets = torch.eye(2)[[0, 1, 0], None]
    >>> groups_of_equals([sets]).tolist()
    [0, 1, 0]
    >>> groups_of_equals([sets[:2]]) is None
    True
    """
    digests: list[bytes] = []
    for start in range(0, len(members[0]), STEP):
        parts = [_bytes_of(sets[start : start + STEP]) for sets in members]
        digests += [
            b"".join(hashlib.sha1(row, usedforsecurity=False).digest() for row in rows)
            for rows in zip(*parts, strict=True)
        ]
    first: dict[bytes, int] = {}
    numbers = [first.setdefault(digest, place) for place, digest in enumerate(digests)]
    return torch.tensor(numbers) if len(first) < len(numbers) else None


def _bytes_of(sets: Tensor) -> list[memoryview]:
    rows = sets.detach().cpu().contiguous().flatten(1).view(torch.uint8).numpy()
    return [memoryview(row) for row in rows]
