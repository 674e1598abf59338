"""Ranks of matches in both directions, and the recalls made of them.

The rank of a match is 1 + the number of foreign items that score as high or higher: a tie with a
foreign item counts against the model, so that a model whose embeddings have all collapsed into
one gets the worst rank everywhere and not the best. Items with identical sets tie, even where
rounding tells their scores apart. An image may have any number of captions, in
any order; its rank is that of its best caption, and its other captions are not foreign to it.

Scores are met block by block: first the blocks that hold matching pairs, for the scores of the
matches, then all blocks, for counting. This module does not know folds, datasets or reports.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any

import numpy as np
import torch
from jaxtyping import Float, Int
from numpy.typing import NDArray
from torch import Tensor

from diverset.errors import InputError
from diverset.evaluation.duplicates import Twins
from diverset.evaluation.members import Member, Owners, Walk, check_members, check_owners
from diverset.similarity import MAX_MEMORY, Similarity

LEVELS = (1, 5, 10)
Block = tuple[slice, slice, Tensor]


@dataclass(frozen=True, eq=False)
class Ranks:
    """Where every query found its match; 1 is the best rank.

    Attributes:
        image_to_text: for each image the rank of its best caption.
        text_to_image: for each caption the rank of its image.
        owners: for each caption the index of its image.
    """

    image_to_text: NDArray[np.int64]
    text_to_image: NDArray[np.int64]
    owners: NDArray[np.int64]


@dataclass(frozen=True)
class Recalls:
    """One direction in numbers: R@1, R@5 and R@10 in percent, and ranks counted from 1."""

    r1: float
    r5: float
    r10: float
    median_rank: float
    mean_rank: float

    @property
    def total(self) -> float:
        """The share of this direction in RSUM."""
        return self.r1 + self.r5 + self.r10

    @staticmethod
    def of(ranks: NDArray[np.int64]) -> Recalls:
        """Summarise ranks; the median of an even number of them is rounded down.

        >>> Recalls.of(np.array([1, 2, 7, 11]))
        Recalls(r1=25.0, r5=50.0, r10=75.0, median_rank=4.0, mean_rank=5.25)
        """
        ranks = np.asarray(ranks)
        if ranks.size == 0:
            raise InputError("there are no ranks to summarise; evaluate at least one query")
        r1, r5, r10 = (100.0 * float((ranks <= level).sum()) / len(ranks) for level in LEVELS)
        return Recalls(r1, r5, r10, float(np.floor(np.median(ranks))), float(ranks.mean()))

    @staticmethod
    def mean(several: Sequence[Recalls]) -> Recalls:
        """The mean of each number, as over folds."""
        table = [[one.r1, one.r5, one.r10, one.median_rank, one.mean_rank] for one in several]
        return Recalls(*np.mean(table, axis=0).tolist())


def rsum(image_to_text: Recalls, text_to_image: Recalls) -> float:
    """The sum of the six recalls, in percent: 600 is perfect."""
    return image_to_text.total + text_to_image.total


def ranks(
    images: Float[Tensor, "images slots dim"],
    texts: Float[Tensor, "texts text_slots dim"],
    owners: Owners,
    similarity: str | Similarity = "smooth_chamfer",
    *,
    max_memory: int = MAX_MEMORY,
    device: torch.device | str | None = None,
    **options: Any,
) -> Ranks:
    """Rank every caption for every image and every image for every caption.

    >>> pictures = torch.eye(4)[:2, None]  # two images, sets of one element
    >>> sentences = torch.eye(4)[[1, 0, 0], None]
    >>> found = ranks(pictures, sentences, owners=[1, 0, 1], similarity="mil")
    >>> found.image_to_text, found.text_to_image
    (array([2, 1]), array([1, 1, 2]))

    Args:
        images: image sets, l2-normalised.
        texts: text sets, l2-normalised.
        owners: for each text the index of its image.
        similarity: a name in `diverset.similarity.SIMILARITIES`, or any function of two batches.
        max_memory: bytes that may be used above the inputs, whatever their size.
        device: where to compute.
        options: passed on to the similarity, e.g. `alpha=16.0`.
    """
    member = Member(images, texts, similarity, options)
    return ensemble_ranks([member], owners, max_memory=max_memory, device=device)


def ensemble_ranks(
    members: Sequence[Member],
    owners: Owners,
    *,
    max_memory: int = MAX_MEMORY,
    device: torch.device | str | None = None,
) -> Ranks:
    """Ranks by the mean of the similarities of several models of the same images and texts."""
    count = check_members(members)
    owner_of = check_owners(owners, count, len(members[0].texts))
    # Neighbouring columns then share their image, and few blocks hold pairs that match.
    order = np.argsort(owner_of, kind="stable")
    sorted_already = bool((owner_of[:-1] <= owner_of[1:]).all())
    by_image = torch.from_numpy(owner_of[order])
    starts = np.searchsorted(owner_of[order], np.arange(count + 1))
    walk = Walk(members, None if sorted_already else torch.from_numpy(order), max_memory, device)

    def holds_matches(rows: slice, columns: slice) -> bool:
        return bool(starts[rows.start] < columns.stop and columns.start < starts[rows.stop])

    own, kept = _own_scores(walk.blocks(holds_matches), by_image, max_memory // 4)
    _check_scores(own, order)
    best = torch.full((count,), -torch.inf, dtype=own.dtype, device=own.device)
    best.scatter_reduce_(0, by_image.to(own.device), own, "amax")

    twins = Twins(members, walk.order, by_image, own, best)

    above_text = torch.zeros(len(order), dtype=torch.int64, device=own.device)
    above_image = torch.zeros(count, dtype=torch.int64, device=own.device)
    done = {(rows.start, columns.start) for rows, columns, _ in kept}
    others = walk.blocks(lambda rows, columns: (rows.start, columns.start) not in done)
    for rows, columns, scores in chain(kept, others):
        # "less" rather than "at least": a score that is not a number counts against as well
        for_text, for_image = scores < own[columns], scores < best[rows, None]
        twins.spoil(for_text, for_image, rows, columns, scores)
        matches = _matches(by_image, rows, columns)
        for_text[matches] = for_image[matches] = True  # not foreign
        above_text[columns] += len(scores) - _count(for_text, dim=0)
        above_image[rows] += scores.shape[1] - _count(for_image, dim=1)

    text_ranks = np.empty(len(order), np.int64)
    text_ranks[order] = above_text.cpu().numpy() + 1
    return Ranks(above_image.cpu().numpy() + 1, text_ranks, owner_of)


def _own_scores(
    blocks: Iterator[Block], by_image: Int[Tensor, " texts"], room: int
) -> tuple[Float[Tensor, " texts"], list[Block]]:
    """The score of every text with its own image, and as many of the blocks as there is room for.

    They are counted later; those that are not kept are computed once more, to the same bits.
    """
    own = torch.empty(0)
    kept = []
    for rows, columns, scores in blocks:
        if not len(own):
            own = torch.full((len(by_image),), torch.nan, dtype=scores.dtype, device=scores.device)
        down, across = _matches(by_image, rows, columns)
        own[columns][across] = scores[down, across]
        room -= scores.nbytes
        if room >= 0:
            kept.append((rows, columns, scores))
    return own, kept


def _matches(by_image: Tensor, rows: slice, columns: slice) -> tuple[Tensor, Tensor]:
    """Where in a block the matching pairs stand."""
    down = by_image[columns] - rows.start
    across = ((down >= 0) & (down < rows.stop - rows.start)).nonzero()[:, 0]
    return down[across], across


def _count(true: Tensor, dim: int) -> Tensor:
    return true.sum(dim=dim, dtype=torch.int32)  # several times faster than int64 on a CPU


def _check_scores(own: Tensor, order: NDArray[np.int64]) -> None:
    wrong = (~own.isfinite()).nonzero()
    if len(wrong):
        place = int(wrong[0])
        raise InputError(
            f"text {order[place]} scores {own[place].item()} with its own image; "
            "a similarity has to give finite scores"
        )
