"""The models to evaluate, as sets, and their mean scores in blocks of bounded memory."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import torch
from jaxtyping import Float, Int
from numpy.typing import NDArray
from torch import Tensor

from diverset.errors import InputError, ShapeError, a_few
from diverset.similarity import (
    MAX_MEMORY,
    ImageIndex,
    Similarity,
    block_shape,
    check_image_index,
    similarity_blocks,
)

Block = tuple[slice, slice, Tensor]
"""Rows (images), columns (texts) and the scores between them."""


@dataclass(frozen=True, eq=False)
class Member:
    """The sets of one model and how to compare them; several members form an ensemble.

    Attributes:
        images: image sets, l2-normalised.
        texts: text sets, l2-normalised.
        similarity: a name in `diverset.similarity.SIMILARITIES`, or any function of two batches
            of sets, e.g. `model.score`.
        options: keyword arguments of the similarity, e.g. `{"alpha": 16.0}`.
        image_bias: subtracted from all scores of an image; see `diverset.evaluation.hubness`.
        text_bias: subtracted from all scores of a text.
    """

    images: Float[Tensor, "images slots dim"]
    texts: Float[Tensor, "texts text_slots dim"]
    similarity: str | Similarity = "smooth_chamfer"
    options: Mapping[str, Any] = field(default_factory=dict)
    image_bias: Float[Tensor, " images"] | None = None
    text_bias: Float[Tensor, " texts"] | None = None

    def subset(self, images: slice, texts: Int[Tensor, " chosen"]) -> Member:
        """The same model on some of the images and texts."""
        return replace(
            self,
            images=self.images[images],
            texts=self.texts[texts],
            image_bias=None if self.image_bias is None else self.image_bias[images],
            text_bias=None if self.text_bias is None else self.text_bias[texts],
        )


class EnsembleScores:
    """The mean scores of an ensemble, computed in the same blocks in every pass.

    Args:
        members: one model, or several for the mean of their similarities.
        order: indices of the texts, in the order of the columns; all in their own order by default.
        max_memory: bytes that may be used in addition to the inputs.
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
        shapes = [
            block_shape(member.images, member.texts, max_memory, self.device) for member in members
        ]
        self.block = min(rows for rows, _ in shapes), min(columns for _, columns in shapes)

    def blocks(self, include: Callable[[slice, slice], bool] | None = None) -> Iterator[Block]:
        """All blocks, or those that `include` selects by their rows and columns."""
        by_member = [self._member_blocks(member, include) for member in self.members]
        for blocks in zip(*by_member, strict=True):
            rows, columns, scores = blocks[0]
            if len(blocks) > 1:
                scores = torch.stack([block[2] for block in blocks]).mean(dim=0)
            yield rows, columns, scores

    def _member_blocks(
        self, member: Member, include: Callable[[slice, slice], bool] | None
    ) -> Iterator[Block]:
        text_bias = member.text_bias
        if text_bias is not None and self.order is not None:
            text_bias = text_bias[self.order]
        for rows, columns, scores in similarity_blocks(
            member.images,
            member.texts,
            member.similarity,
            block=self.block,
            order=self.order,
            select=include,
            device=self.device,
            **member.options,
        ):
            _check_block(scores, rows, columns)
            if member.image_bias is not None:
                scores = scores - member.image_bias[rows, None].to(scores)
            if text_bias is not None:
                scores = scores - text_bias[columns].to(scores)
            yield rows, columns, scores


def check_members(members: Sequence[Member]) -> int:
    """Raise unless all members hold the same images and texts; return the number of images."""
    if not members:
        raise InputError("there is nothing to evaluate; give at least one member")
    sizes = [(len(member.images), len(member.texts)) for member in members]
    for number, size in enumerate(sizes):
        if size != sizes[0]:
            raise ShapeError(
                f"member {number} of the ensemble has {size[0]} images and {size[1]} texts, member "
                f"0 has {sizes[0][0]} and {sizes[0][1]}; encode the same collection in one order"
            )
    if 0 in sizes[0]:
        raise InputError(
            f"there are {sizes[0][0]} images and {sizes[0][1]} texts; evaluation needs both"
        )
    return sizes[0][0]


def check_collection(image_index: ImageIndex, images: int, texts: int) -> NDArray[np.int64]:
    """Raise unless every text has an image and every image at least one text.

    >>> check_collection([0, 0, 2], images=3, texts=3)
    Traceback (most recent call last):
    ...
    diverset.errors.InputError: 1 images have no text: 1; leave them out before evaluating
    """
    index = image_index.cpu() if isinstance(image_index, Tensor) else image_index
    checked: NDArray[np.int64] = check_image_index(index, images, texts).numpy()
    without_text = np.flatnonzero(np.bincount(checked, minlength=images) == 0).tolist()
    if without_text:
        raise InputError(
            f"{len(without_text)} images have no text: {a_few(without_text)}; leave them out "
            "before evaluating"
        )
    return checked


def _check_block(scores: Tensor, rows: slice, columns: slice) -> None:
    expected = (rows.stop - rows.start, columns.stop - columns.start)
    if scores.shape != expected:
        raise ShapeError(
            f"the similarity returned shape {tuple(scores.shape)} for {expected[0]} images "
            f"and {expected[1]} texts; it must return (images, texts)"
        )
