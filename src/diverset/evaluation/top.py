"""The first few items of every ranking, both ways, in memory that does not grow with its length.

Items with equal scores stand in the order of the collection, as a stable sort would leave them.
This module does not know which items are right.
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
from diverset.evaluation.members import Member, Walk
from diverset.similarity import MAX_MEMORY


@dataclass(frozen=True, eq=False)
class Top:
    """Indices of the best items, best first.

    Attributes:
        image_to_text: for each image its best texts, (images, texts).
        text_to_image: for each text its best images, (texts, images).
    """

    image_to_text: NDArray[np.int64]
    text_to_image: NDArray[np.int64]


def top_ranked(
    members: Sequence[Member],
    *,
    texts: int = 10,
    images: int = 10,
    max_memory: int = MAX_MEMORY,
    device: torch.device | str | None = None,
) -> Top:
    """The best items for every query, by one pass over all pairs.

    >>> sets = torch.eye(3)[:, None]
    >>> top_ranked([Member(sets, sets[[2, 0, 1]], "mil")], texts=2, images=1).image_to_text
    array([[1, 0],
           [2, 0],
           [0, 1]])

    Args:
        members: one model, or several for the mean of their similarities.
        texts: how many texts to keep for an image.
        images: how many images to keep for a text.
        max_memory: bytes that may be used above the inputs and the result.
        device: where to compute.
    """
    if texts < 1 or images < 1:
        raise OptionError(f"texts is {texts} and images is {images}; keep at least one of each")
    walk = Walk(members, None, max_memory, device)
    n_images, n_texts = len(members[0].images), len(members[0].texts)
    forth = _Running(n_images, min(texts, n_texts), walk.device)
    back = _Running(n_texts, min(images, n_images), walk.device)
    for rows, columns, scores in walk.blocks():
        if not scores.isfinite().all():
            down, across = (~scores.isfinite()).nonzero()[0].tolist()
            raise InputError(
                f"image {rows.start + down} and text {columns.start + across} score "
                f"{scores[down, across].item()}; a similarity has to give finite scores"
            )
        forth.add(rows, scores, columns.start)
        back.add(columns, scores.T, rows.start)
    return Top(forth.places.cpu().numpy(), back.places.cpu().numpy())


class _Running:
    """The best items so far; items have to arrive in the order of the collection."""

    def __init__(self, queries: int, depth: int, device: torch.device) -> None:
        self.values = torch.full((queries, depth), -torch.inf, device=device, dtype=torch.float64)
        self.places = torch.zeros((queries, depth), device=device, dtype=torch.int64)

    def add(self, queries: slice, scores: Float[Tensor, "queries items"], first: int) -> None:
        depth = self.values.shape[1]
        values, places = stable_top(scores.contiguous(), depth)
        merged = torch.cat([self.values[queries], values.double()], dim=1)
        known = torch.cat([self.places[queries], places + first], dim=1)
        order = merged.sort(dim=1, descending=True, stable=True).indices[:, :depth]
        self.values[queries] = merged.gather(1, order)
        self.places[queries] = known.gather(1, order)


def stable_top(
    scores: Float[Tensor, "queries items"], depth: int
) -> tuple[Float[Tensor, "queries depth"], Int[Tensor, "queries depth"]]:
    """`torch.topk`, but with equal scores in order of place, and the first of them kept.

    >>> stable_top(torch.tensor([[1.0, 2.0, 2.0, 1.0]]), 3)[1].tolist()
    [[1, 2, 0]]
    """
    if scores.shape[1] > depth:
        values, places = scores.topk(depth, dim=1)
        # topk is free to choose among items that tie for the last place.
        crowded = ((scores >= values[:, -1:]).sum(dim=1, dtype=torch.int32) > depth).nonzero()[:, 0]
        if len(crowded):
            ordered = scores[crowded].sort(dim=1, descending=True, stable=True)
            places[crowded] = ordered.indices[:, :depth]
        places = places.sort(dim=1).values
    else:
        places = torch.arange(scores.shape[1], device=scores.device).repeat(len(scores), 1)
    values, order = scores.gather(1, places).sort(dim=1, descending=True, stable=True)
    return values, places.gather(1, order)
