"""Ranks of matches in both directions, and recalls.

The rank of a match is 1 + the number of non-matching items that score as high or higher. Ties count
against the model, so a model whose embeddings have collapsed gets the worst ranks and not the best.
Items with identical sets tie, even if rounding makes their scores differ. An image may have any
number of captions, in any order; its rank is that of its best caption.

Scores are computed in blocks: first the blocks that contain matching pairs, for the scores of the
matches, then all blocks, to count what scores higher.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import astuple, dataclass
from itertools import chain
from typing import Any

import numpy as np
import torch
from jaxtyping import Float, Int
from numpy.typing import NDArray
from torch import Tensor

from diverset.errors import InputError
from diverset.evaluation.duplicates import DuplicateTies
from diverset.evaluation.ensemble import (
    Block,
    EnsembleScores,
    Member,
    check_collection,
    check_members,
)
from diverset.similarity import MAX_MEMORY, ImageIndex, Similarity

LEVELS = (1, 5, 10)


@dataclass(frozen=True, eq=False)
class Ranks:
    """The rank of each image's best caption and of each caption's image, counted from 1.

    `image_index` is the index of each caption's image.
    """

    image_to_text: NDArray[np.int64]
    text_to_image: NDArray[np.int64]
    image_index: NDArray[np.int64]


@dataclass(frozen=True)
class Recalls:
    """Recalls of one direction in percent, and ranks counted from 1."""

    r1: float
    r5: float
    r10: float
    median_rank: float
    mean_rank: float

    @property
    def total(self) -> float:
        """The sum of the three recalls."""
        return self.r1 + self.r5 + self.r10

    @staticmethod
    def of(ranks: NDArray[np.int64]) -> Recalls:
        """Summarise ranks; the median of an even number of ranks is rounded down.

        >>> Recalls.of(np.array([1, 2, 7, 11]))
        Recalls(r1=25.0, r5=50.0, r10=75.0, median_rank=4.0, mean_rank=5.25)
        """
        ranks = np.asarray(ranks)
        if ranks.size == 0:
            raise InputError("no ranks to summarise; evaluate at least one query")
        r1, r5, r10 = (100.0 * float((ranks <= level).sum()) / len(ranks) for level in LEVELS)
        return Recalls(r1, r5, r10, float(np.floor(np.median(ranks))), float(ranks.mean()))

    @staticmethod
    def mean(folds: Sequence[Recalls]) -> Recalls:
        """The mean of each number over folds."""
        return Recalls(*np.mean([astuple(fold) for fold in folds], axis=0).tolist())


def ranks(
    images: Float[Tensor, "images slots dim"],
    texts: Float[Tensor, "texts text_slots dim"],
    image_index: ImageIndex,
    similarity: str | Similarity = "smooth_chamfer",
    *,
    max_memory: int = MAX_MEMORY,
    device: torch.device | str | None = None,
    **options: Any,
) -> Ranks:
    """Rank every caption for every image and every image for every caption.

    The arguments are those of `diverset.evaluation.evaluate_sets`.

    >>> images = torch.eye(4)[:2, None]  # two images, sets of one element
    >>> texts = torch.eye(4)[[1, 0, 0], None]
    >>> result = ranks(images, texts, image_index=[1, 0, 1], similarity="mil")
    >>> result.image_to_text, result.text_to_image
    (array([2, 1]), array([1, 1, 2]))
    """
    member = Member(images, texts, similarity, options)
    return ensemble_ranks([member], image_index, max_memory=max_memory, device=device)


def ensemble_ranks(
    members: Sequence[Member],
    image_index: ImageIndex,
    *,
    max_memory: int = MAX_MEMORY,
    device: torch.device | str | None = None,
) -> Ranks:
    """Ranks by the mean of the similarities of several models of the same images and texts."""
    n_images = check_members(members)
    index = check_collection(image_index, n_images, len(members[0].texts))
    # Columns are sorted by image, so that few blocks contain matching pairs.
    order = np.argsort(index, kind="stable")
    is_sorted = bool((index[:-1] <= index[1:]).all())
    image_of_column = torch.from_numpy(index[order])
    starts = np.searchsorted(index[order], np.arange(n_images + 1))
    all_scores = EnsembleScores(
        members, None if is_sorted else torch.from_numpy(order), max_memory, device
    )

    def has_matches(rows: slice, columns: slice) -> bool:
        return bool(starts[rows.start] < columns.stop and columns.start < starts[rows.stop])

    own, stored = _own_scores(all_scores.blocks(has_matches), image_of_column, max_memory // 4)
    _check_scores(own, order)
    best = torch.full((n_images,), -torch.inf, dtype=own.dtype, device=own.device)
    best.scatter_reduce_(0, image_of_column.to(own.device), own, "amax")
    ties = DuplicateTies(members, all_scores.order, image_of_column, own, best)

    above_text = torch.zeros(len(order), dtype=torch.int64, device=own.device)
    above_image = torch.zeros(n_images, dtype=torch.int64, device=own.device)
    done = {(rows.start, columns.start) for rows, columns, _ in stored}
    others = all_scores.blocks(lambda rows, columns: (rows.start, columns.start) not in done)
    for rows, columns, scores in chain(stored, others):
        # "lower" rather than "at least as high": a score that is NaN counts against the model
        lower_for_text, lower_for_image = scores < own[columns], scores < best[rows, None]
        ties.apply(lower_for_text, lower_for_image, rows, columns, scores)
        matches = _matches(image_of_column, rows, columns)
        lower_for_text[matches] = lower_for_image[matches] = True  # matches do not count
        above_text[columns] += len(scores) - _count(lower_for_text, dim=0)
        above_image[rows] += scores.shape[1] - _count(lower_for_image, dim=1)

    text_ranks = np.empty(len(order), np.int64)
    text_ranks[order] = above_text.cpu().numpy() + 1
    return Ranks(above_image.cpu().numpy() + 1, text_ranks, index)


def _own_scores(
    blocks: Iterator[Block], image_of_column: Int[Tensor, " texts"], max_bytes: int
) -> tuple[Float[Tensor, " texts"], list[Block]]:
    """The score of every text with its own image, and as many blocks as fit into `max_bytes`.

    The other blocks are computed again for counting, with bit-identical scores.
    """
    own = torch.empty(0)
    stored = []
    for rows, columns, scores in blocks:
        if not len(own):
            own = torch.full(
                (len(image_of_column),), torch.nan, dtype=scores.dtype, device=scores.device
            )
        match_rows, match_columns = _matches(image_of_column, rows, columns)
        own[columns][match_columns] = scores[match_rows, match_columns]
        max_bytes -= scores.nbytes
        if max_bytes >= 0:
            stored.append((rows, columns, scores))
    return own, stored


def _matches(image_of_column: Tensor, rows: slice, columns: slice) -> tuple[Tensor, Tensor]:
    """Rows and columns of the matching pairs within a block."""
    row = image_of_column[columns] - rows.start
    column = ((row >= 0) & (row < rows.stop - rows.start)).nonzero()[:, 0]
    return row[column], column


def _count(mask: Tensor, dim: int) -> Tensor:
    return mask.sum(dim=dim, dtype=torch.int32)  # several times faster than int64 on a CPU


def _check_scores(own: Tensor, order: NDArray[np.int64]) -> None:
    wrong = (~own.isfinite()).nonzero()
    if len(wrong):
        column = int(wrong[0])
        raise InputError(
            f"text {order[column]} scores {own[column].item()} with its own image; "
            "a similarity must return finite scores"
        )
