"""On what a model is evaluated: a collection as a whole, or the mean over consecutive folds.

The literature evaluates Flickr30K on 1,000 images and COCO on 5,000 ("full"), and COCO also as
the mean over five consecutive folds of 1,000 images of the 5,000 ("coco_1k"). This module knows
no dataset beyond those numbers.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch

from diverset.errors import OptionError, check_choice
from diverset.evaluation.members import Member, Owners, check_members, check_owners
from diverset.evaluation.recall import Ranks, Recalls, ensemble_ranks
from diverset.similarity import MAX_MEMORY


@dataclass(frozen=True)
class Protocol:
    """How to cut a collection before ranking.

    Attributes:
        name: as it appears in reports.
        fold_size: images a fold; None to rank everything against everything.
        n_folds: how many folds there must be; None for as many as there are.
    """

    name: str
    fold_size: int | None = None
    n_folds: int | None = None


PROTOCOLS = {
    "full": Protocol("full"),
    "coco_1k": Protocol("COCO 1K (mean of 5 folds)", fold_size=1000, n_folds=5),
}


@dataclass(frozen=True, eq=False)
class Outcome:
    """What a protocol gives: recalls both ways, and each query's rank within its fold."""

    protocol: Protocol
    image_to_text: Recalls
    text_to_image: Recalls
    ranks: Ranks


def folds(n_images: int, size: int) -> list[range]:
    """Consecutive folds of `size` images; they have to come out even.

    >>> folds(6, 3)
    [range(0, 3), range(3, 6)]
    """
    if size < 1 or n_images < 1 or n_images % size:
        raise OptionError(
            f"the fold size is {size}, which does not divide {n_images} images; "
            "choose a divisor, or the protocol 'full'"
        )
    return [range(start, start + size) for start in range(0, n_images, size)]


def find_protocol(protocol: str | Protocol) -> Protocol:
    """The protocol of this name, or the one that was given."""
    if isinstance(protocol, Protocol):
        return protocol
    check_choice("protocol", protocol, PROTOCOLS)
    return PROTOCOLS[protocol]


def run_protocol(
    members: Sequence[Member],
    owners: Owners,
    protocol: str | Protocol = "full",
    *,
    max_memory: int = MAX_MEMORY,
    device: torch.device | str | None = None,
) -> Outcome:
    """Rank under a protocol. Numbers over folds are means over folds, median ranks included."""
    chosen = find_protocol(protocol)
    count = check_members(members)
    owner_of = check_owners(owners, count, len(members[0].texts))
    if chosen.fold_size is None:
        found = ensemble_ranks(members, owner_of, max_memory=max_memory, device=device)
        recalls = Recalls.of(found.image_to_text), Recalls.of(found.text_to_image)
        return Outcome(chosen, *recalls, found)
    parts = folds(count, chosen.fold_size)
    if chosen.n_folds is not None and len(parts) != chosen.n_folds:
        raise OptionError(
            f"{chosen.name} takes {chosen.n_folds} folds of {chosen.fold_size} images, but there "
            f"are {count} images; use the protocol 'full', or Protocol(name, fold_size=...)"
        )
    image_ranks = np.empty(count, np.int64)
    text_ranks = np.empty(len(owner_of), np.int64)
    forth, back = [], []
    for part in parts:
        captions = np.flatnonzero((owner_of >= part.start) & (owner_of < part.stop))
        found = ensemble_ranks(
            [_part(member, part, captions) for member in members],
            owner_of[captions] - part.start,
            max_memory=max_memory,
            device=device,
        )
        image_ranks[part.start : part.stop] = found.image_to_text
        text_ranks[captions] = found.text_to_image
        forth.append(Recalls.of(found.image_to_text))
        back.append(Recalls.of(found.text_to_image))
    ranked = Ranks(image_ranks, text_ranks, owner_of)
    return Outcome(chosen, Recalls.mean(forth), Recalls.mean(back), ranked)


def _part(member: Member, images: range, captions: np.ndarray) -> Member:
    return replace(
        member,
        images=member.images[images.start : images.stop],
        texts=member.texts[torch.from_numpy(captions)],
    )
