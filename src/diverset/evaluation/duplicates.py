"""Ties between items with identical sets.

A matrix product may round the same pair of vectors differently in different positions, so a
duplicate of an image could outrank it by the last bit. `DuplicateTies` finds such items and counts
them as ties.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from diverset.evaluation.ensemble import Member

CHUNK = 256
TOLERANCE = 1e-5  # more than rounding can change the score of identical sets


class DuplicateTies:
    """Items whose sets are identical to those of a query's match.

    Args:
        members: the ensemble.
        order: order of the texts in the score columns; None for their own.
        image_of_column: for each column the index of its image.
        own: for each column the score with its own image.
        best: for each image the score of its best text.
    """

    def __init__(
        self,
        members: Sequence[Member],
        order: Tensor | None,
        image_of_column: Int[Tensor, " texts"],
        own: Float[Tensor, " texts"],
        best: Float[Tensor, " images"],
    ) -> None:
        self.own, self.best = own, best
        self.images = duplicate_groups([member.images for member in members])
        self.texts = duplicate_groups([member.texts for member in members])
        if self.images is not None:
            self.images = self.images.to(own.device)
            self.match_of_text = self.images[image_of_column.to(own.device)]
        if self.texts is not None:
            texts = self.texts if order is None else self.texts[order]
            is_best = (own.cpu() == best.cpu()[image_of_column]).nonzero()[:, 0]
            match = torch.empty(len(best), dtype=torch.int64)
            match[image_of_column[is_best]] = texts[is_best]
            self.texts, self.match_of_image = texts.to(own.device), match.to(own.device)

    def apply(
        self,
        lower_for_text: Bool[Tensor, "rows columns"],
        lower_for_image: Bool[Tensor, "rows columns"],
        rows: slice,
        columns: slice,
        scores: Float[Tensor, "rows columns"],
    ) -> None:
        """Clear "scores lower than the match" where the difference is only rounding."""
        if self.images is not None:
            same = self.images[rows, None] == self.match_of_text[columns]
            lower_for_text &= ~(same & (scores >= self.own[columns] - TOLERANCE))
        if self.texts is not None:
            same = self.texts[columns] == self.match_of_image[rows, None]
            lower_for_image &= ~(same & (scores >= self.best[rows, None] - TOLERANCE))


def duplicate_groups(
    members: Sequence[Float[Tensor, "items elements dim"]],
) -> Int[Tensor, " items"] | None:
    """A group number per item, equal for items whose sets are identical in every member.

    None if all items differ, which is the usual case.

    >>> sets = torch.eye(2)[[0, 1, 0], None]
    >>> duplicate_groups([sets]).tolist()
    [0, 1, 0]
    >>> duplicate_groups([sets[:2]]) is None
    True
    """
    digests: list[bytes] = []
    for start in range(0, len(members[0]), CHUNK):
        chunks = [_row_bytes(sets[start : start + CHUNK]) for sets in members]
        digests += [
            b"".join(hashlib.sha1(row, usedforsecurity=False).digest() for row in rows)
            for rows in zip(*chunks, strict=True)
        ]
    first: dict[bytes, int] = {}
    groups = [first.setdefault(digest, item) for item, digest in enumerate(digests)]
    return torch.tensor(groups) if len(first) < len(groups) else None


def _row_bytes(sets: Tensor) -> list[memoryview]:
    rows = sets.detach().cpu().contiguous().flatten(1).view(torch.uint8).numpy()
    return [memoryview(row) for row in rows]
