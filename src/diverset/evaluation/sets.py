"""Evaluate sets under a protocol: a whole collection, or the mean over consecutive folds.

The literature evaluates Flickr30K on 1,000 images and COCO on 5,000 ("full"), and COCO also as
the mean over five consecutive folds of 1,000 of the 5,000 images ("coco_1k"). If some of the images
are missing, there are fewer folds; images after the last whole fold are left out.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from jaxtyping import Float
from numpy.typing import NDArray
from torch import Tensor

from diverset.errors import OptionError, check_choice
from diverset.evaluation.ensemble import Member, check_collection, check_members
from diverset.evaluation.health import set_health
from diverset.evaluation.recall import Ranks, Recalls, ensemble_ranks
from diverset.evaluation.report import Report
from diverset.similarity import MAX_MEMORY, ImageIndex, Similarity


@dataclass(frozen=True)
class Protocol:
    """How a collection is split before ranking.

    Attributes:
        name: as it appears in reports.
        fold_size: images per fold; None ranks the whole collection.
        max_folds: most folds that there may be; None for any number.
    """

    name: str
    fold_size: int | None = None
    max_folds: int | None = None

    def folds(self, images: int) -> list[slice]:
        """Consecutive whole folds; the images after the last one are left out.

        >>> Protocol("thirds", fold_size=3).folds(7)
        [slice(0, 3, None), slice(3, 6, None)]
        """
        size = images if self.fold_size is None else self.fold_size
        if not 1 <= size <= images:
            raise OptionError(
                f"{self.name} takes folds of {size} images, but there are {images} images; use the "
                "protocol 'full'"
            )
        if self.max_folds is not None and images > size * self.max_folds:
            raise OptionError(
                f"{self.name} takes {self.max_folds} folds of {size} images, but there are "
                f"{images} images; use the protocol 'full', or Protocol(name, fold_size=...)"
            )
        return [slice(start, start + size) for start in range(0, images - size + 1, size)]

    def describe(self, folds: int) -> str:
        """The protocol in a report."""
        return self.name if self.fold_size is None else f"{self.name} (mean of {folds} folds)"


PROTOCOLS = {
    "full": Protocol("full"),
    "coco_1k": Protocol("COCO 1K", fold_size=1000, max_folds=5),
}


def evaluate_sets(
    images: Float[Tensor, "images slots dim"],
    texts: Float[Tensor, "texts text_slots dim"],
    image_index: ImageIndex,
    similarity: str | Similarity = "smooth_chamfer",
    protocol: str | Protocol = "full",
    *,
    health: bool = True,
    extras: Mapping[str, Any] | None = None,
    max_memory: int = MAX_MEMORY,
    device: torch.device | str | None = None,
    **options: Any,
) -> Report:
    """Evaluate the sets of one model.

    >>> sets = torch.eye(6).reshape(3, 2, 6)  # three images, and captions with the same sets
    >>> evaluate_sets(sets, sets, image_index=[0, 1, 2]).rsum
    600.0

    Args:
        images: image sets, l2-normalised.
        texts: text sets, l2-normalised.
        image_index: for each text the index of its image; any number per image, in any order.
        similarity: a name in `diverset.similarity.SIMILARITIES`, or any function of two batches,
            e.g. `model.score`.
        protocol: a name in `PROTOCOLS`, or a `Protocol`.
        health: whether to measure the spread of the sets as well.
        extras: additional entries of the report.
        max_memory: bytes that may be used in addition to the inputs, whatever their size.
        device: where to compute.
        options: keyword arguments of the similarity, e.g. `alpha=16.0`.
    """
    return evaluate_members(
        [Member(images, texts, similarity, options)],
        image_index,
        protocol,
        health=health,
        extras=extras,
        max_memory=max_memory,
        device=device,
    )


def evaluate_members(
    members: Sequence[Member],
    image_index: ImageIndex,
    protocol: str | Protocol = "full",
    *,
    health: bool = False,
    extras: Mapping[str, Any] | None = None,
    max_memory: int = MAX_MEMORY,
    device: torch.device | str | None = None,
) -> Report:
    """Evaluate one model, or an ensemble by the mean of its similarities.

    The arguments are those of `evaluate_sets`; `health` is that of the first member. Recalls and
    ranks over folds are means over folds, median ranks included.
    """
    if isinstance(protocol, str):
        check_choice("protocol", protocol, PROTOCOLS)
        protocol = PROTOCOLS[protocol]
    n_images = check_members(members)
    index = check_collection(image_index, n_images, len(members[0].texts))
    folds = protocol.folds(n_images)
    left_out, n_images = n_images - folds[-1].stop, folds[-1].stop
    members, index, _ = _select(members, index, slice(0, n_images))
    ranks, recalls = _rank_folds(members, index, folds, max_memory, device)
    notes: dict[str, Any] = {"ensemble of": len(members)} if len(members) > 1 else {}
    if left_out:
        notes["images left out after the last whole fold"] = left_out
    return Report(
        protocol=protocol.describe(len(folds)),
        n_images=n_images,
        n_captions=len(index),
        image_to_text=Recalls.mean([to_text for to_text, _ in recalls]),
        text_to_image=Recalls.mean([to_image for _, to_image in recalls]),
        health=set_health(members[0].images, members[0].texts, index) if health else None,
        extras={**notes, **(extras or {})},
        ranks=ranks,
    )


def _rank_folds(
    members: Sequence[Member],
    index: NDArray[np.int64],
    folds: Sequence[slice],
    max_memory: int,
    device: torch.device | str | None,
) -> tuple[Ranks, list[tuple[Recalls, Recalls]]]:
    """The rank of every query within its fold, and the recalls of each fold in both directions."""
    ranks = Ranks(np.empty(folds[-1].stop, np.int64), np.empty(len(index), np.int64), index)
    recalls = []
    for fold in folds:
        subsets, fold_index, captions = _select(members, index, fold)
        fold_ranks = ensemble_ranks(subsets, fold_index, max_memory=max_memory, device=device)
        ranks.image_to_text[fold] = fold_ranks.image_to_text
        ranks.text_to_image[captions] = fold_ranks.text_to_image
        recalls.append((Recalls.of(fold_ranks.image_to_text), Recalls.of(fold_ranks.text_to_image)))
    return ranks, recalls


def _select(
    members: Sequence[Member], index: NDArray[np.int64], images: slice
) -> tuple[Sequence[Member], NDArray[np.int64], NDArray[np.int64]]:
    """Consecutive images with their captions, and the rows of these captions."""
    captions = np.flatnonzero((index >= images.start) & (index < images.stop))
    if len(captions) < len(index):
        rows = torch.from_numpy(captions)
        members = [member.subset(images, rows) for member in members]
    return members, index[captions] - images.start, captions
