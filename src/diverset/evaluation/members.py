"""What is evaluated: the sets of one model or of an ensemble, checked and walked through in blocks.

Scores are met block by block and never kept, so that memory is bounded whatever the size of a
collection. This module does not know what the scores are used for.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from jaxtyping import Float, Int
from numpy.typing import NDArray
from torch import Tensor

from diverset.errors import InputError, ShapeError, a_few
from diverset.similarity import MAX_MEMORY, Similarity, block_shape, similarity_blocks

Owners = Sequence[int] | NDArray[np.int64] | Int[Tensor, " texts"]


@dataclass(frozen=True, eq=False)
class Member:
    """The sets of one model and how to compare them; several members are an ensemble.

    Attributes:
        images: image sets, l2-normalised.
        texts: text sets, l2-normalised.
        similarity: a name in `diverset.similarity.SIMILARITIES`, or any function of two batches
            of sets, e.g. `model.score`.
        options: passed on to the similarity, e.g. `{"alpha": 16.0}`.
    """

    images: Float[Tensor, "images slots dim"]
    texts: Float[Tensor, "texts text_slots dim"]
    similarity: str | Similarity = "smooth_chamfer"
    options: Mapping[str, Any] = field(default_factory=dict)


class Walk:
    """The mean scores of an ensemble in blocks that are cut alike in every pass.

    Args:
        members: one model, or several for the mean of their similarities.
        order: indices of the texts to score, in this order; columns then count along it.
        max_memory: bytes that may be used above the inputs.
        device: where to compute.
    """

    def __init__(
        self,
        members: Sequence[Member],
        order: Int[Tensor, " texts"] | None = None,
        max_memory: int = MAX_MEMORY,
        device: torch.device | str | None = None,
    ) -> None:
        check_members(members)
        self.members = members
        self.order = order
        self.device = torch.device(device) if device is not None else members[0].images.device
        shapes = [block_shape(one.images, one.texts, max_memory, self.device) for one in members]
        self.block = min(rows for rows, _ in shapes), min(columns for _, columns in shapes)

    def blocks(
        self, wanted: Callable[[slice, slice], bool] | None = None
    ) -> Iterator[tuple[slice, slice, Tensor]]:
        walks = [
            similarity_blocks(
                one.images,
                one.texts,
                one.similarity,
                block=self.block,
                order=self.order,
                wanted=wanted,
                device=self.device,
                **one.options,
            )
            for one in self.members
        ]
        for parts in zip(*walks, strict=True):
            rows, columns, scores = parts[0]
            for _, _, part in parts:
                _check_block(part, rows, columns)
            if len(parts) > 1:
                scores = torch.stack([part for _, _, part in parts]).mean(dim=0)
            yield rows, columns, scores


def check_members(members: Sequence[Member]) -> int:
    """Raise unless all members hold the same images and texts; return the number of images."""
    if not members:
        raise InputError("there is nothing to evaluate; give at least one member")
    sizes = [(len(member.images), len(member.texts)) for member in members]
    for place, size in enumerate(sizes):
        if size != sizes[0]:
            raise ShapeError(
                f"member {place} of the ensemble has {size[0]} images and {size[1]} texts, member "
                f"0 has {sizes[0][0]} and {sizes[0][1]}; encode the same collection in one order"
            )
    if 0 in sizes[0]:
        raise InputError(
            f"there are {sizes[0][0]} images and {sizes[0][1]} texts; evaluation needs both"
        )
    return sizes[0][0]


def check_owners(owners: Owners, images: int, texts: int) -> NDArray[np.int64]:
    """Raise unless there is one image index a text and at least one text an image.

    >>> check_owners([0, 0, 2], images=3, texts=3)
    Traceback (most recent call last):
    ...
    diverset.errors.InputError: 1 images have no text: 1; leave them out before evaluating
    """
    found = np.asarray(owners.cpu() if isinstance(owners, Tensor) else owners)
    if found.shape != (texts,):
        raise ShapeError(
            f"owners has shape {found.shape} for {texts} texts; give one image index a text"
        )
    if found.dtype.kind not in "iu":
        raise InputError(f"owners holds {found.dtype}; image indices are integers")
    found = found.astype(np.int64)
    outside = np.flatnonzero((found < 0) | (found >= images))
    if len(outside):
        text = int(outside[0])
        raise InputError(
            f"text {text} belongs to image {found[text]}, but there are {images} images; "
            f"owners go from 0 to {images - 1}"
        )
    lonely = np.flatnonzero(np.bincount(found, minlength=images) == 0).tolist()
    if lonely:
        raise InputError(
            f"{len(lonely)} images have no text: {a_few(lonely)}; leave them out before evaluating"
        )
    return found


def _check_block(scores: Tensor, rows: slice, columns: slice) -> None:
    wanted = (rows.stop - rows.start, columns.stop - columns.start)
    if scores.shape != wanted:
        raise ShapeError(
            f"the similarity gave scores of shape {tuple(scores.shape)} for {wanted[0]} images and "
            f"{wanted[1]} texts; it has to return (images, texts)"
        )
