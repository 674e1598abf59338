"""The best items of every ranking in both directions, in bounded memory.

Items with equal scores keep the order of the collection, as in a stable sort.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Float, Int
from numpy.typing import NDArray
from torch import Tensor

from diverset.errors import InputError, OptionError
from diverset.evaluation.ensemble import EnsembleScores, Member
from diverset.similarity import MAX_MEMORY


@dataclass(frozen=True, eq=False)
class Top:
    """Indices of the best texts of each image and the best images of each text, best first."""

    image_to_text: NDArray[np.int64]
    text_to_image: NDArray[np.int64]


def top_ranked(
    members: Sequence[Member],
    *,
    texts: int = 10,
    images: int = 10,
    max_memory: int = MAX_MEMORY,
) -> Top:
    """The best items for every query, in one pass over all pairs.

    >>> sets = torch.eye(3)[:, None]
    >>> top_ranked([Member(sets, sets[[2, 0, 1]], "mil")], texts=2, images=1).image_to_text
    array([[1, 0],
           [2, 0],
           [0, 1]])

    `texts` is the number of texts per image, `images` that of images per text; `max_memory` bytes
    may be used in addition to the inputs and the result.
    """
    if texts < 1 or images < 1:
        raise OptionError(f"texts is {texts} and images is {images}; give at least 1")
    all_scores = EnsembleScores(members, None, max_memory)
    n_images, n_texts = len(members[0].images), len(members[0].texts)
    texts_of_image = _RunningTop(n_images, min(texts, n_texts), all_scores.device)
    images_of_text = _RunningTop(n_texts, min(images, n_images), all_scores.device)
    for rows, columns, scores in all_scores.blocks():
        if not scores.isfinite().all():
            row, column = (~scores.isfinite()).nonzero()[0].tolist()
            raise InputError(
                f"image {rows.start + row} and text {columns.start + column} score "
                f"{scores[row, column].item()}; a similarity must return finite scores"
            )
        texts_of_image.add(rows, scores, columns.start)
        images_of_text.add(columns, scores.T, rows.start)
    return Top(texts_of_image.items.cpu().numpy(), images_of_text.items.cpu().numpy())


class _RunningTop:
    """The best items so far; items are added in the order of the collection."""

    def __init__(self, queries: int, depth: int, device: torch.device) -> None:
        self.values = torch.full((queries, depth), -torch.inf, device=device, dtype=torch.float64)
        self.items = torch.zeros((queries, depth), device=device, dtype=torch.int64)

    def add(self, queries: slice, scores: Float[Tensor, "queries items"], first: int) -> None:
        depth = self.values.shape[1]
        values, items = stable_top(scores.contiguous(), depth)
        merged = torch.cat([self.values[queries], values.double()], dim=1)
        merged_items = torch.cat([self.items[queries], items + first], dim=1)
        self.values[queries], order = stable_top(merged, depth)
        self.items[queries] = merged_items.gather(1, order)


def stable_top(
    scores: Float[Tensor, "queries items"], depth: int
) -> tuple[Float[Tensor, "queries depth"], Int[Tensor, "queries depth"]]:
    """`torch.topk`, but stable: of equal scores, those of the first items are returned, in order.

    >>> stable_top(torch.tensor([[1.0, 2.0, 2.0, 1.0]]), 3)[1].tolist()
    [[1, 2, 0]]
    """
    if scores.shape[1] <= depth:
        values, order = scores.sort(dim=1, descending=True, stable=True)
        return values, order
    values, items = scores.topk(depth, dim=1)
    # topk may return any of the items that tie for the last rank.
    candidates = (scores >= values[:, -1:]).sum(dim=1, dtype=torch.int32)
    ambiguous = (candidates > depth).nonzero()[:, 0]
    if len(ambiguous):
        ordered = scores[ambiguous].sort(dim=1, descending=True, stable=True)
        items[ambiguous] = ordered.indices[:, :depth]
    items = items.sort(dim=1).values
    values, order = scores.gather(1, items).sort(dim=1, descending=True, stable=True)
    return values, items.gather(1, order)
