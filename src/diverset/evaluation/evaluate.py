"""From sets to a report: ranks under a protocol, recalls, and the health of the sets.

This module does not know models or datasets: encode a collection first.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from diverset.evaluation.health import set_health
from diverset.evaluation.members import Member, Owners
from diverset.evaluation.protocols import Protocol, run_protocol
from diverset.evaluation.report import Report
from diverset.similarity import MAX_MEMORY, Similarity


def evaluate_sets(
    images: Float[Tensor, "images slots dim"],
    texts: Float[Tensor, "texts text_slots dim"],
    owners: Owners,
    similarity: str | Similarity = "smooth_chamfer",
    protocol: str | Protocol = "full",
    *,
    health: bool = True,
    extras: Mapping[str, Any] | None = None,
    max_memory: int = MAX_MEMORY,
    device: torch.device | str | None = None,
    **options: Any,
) -> Report:
    """Evaluate one model on a collection.

    >>> sets = torch.eye(6).reshape(3, 2, 6)  # three images, and captions with the same sets
    >>> evaluate_sets(sets, sets, owners=[0, 1, 2]).rsum
    600.0

    Args:
        images: image sets, l2-normalised.
        texts: text sets, l2-normalised.
        owners: for each text the index of its image; any number an image, in any order.
        similarity: a name in `diverset.similarity.SIMILARITIES`, or any function of two batches,
            e.g. `model.score`.
        protocol: a name in `PROTOCOLS`, or a `Protocol`.
        health: whether to look at the spread of the sets as well.
        extras: what else to put into the report.
        max_memory: bytes that may be used above the inputs, whatever their size.
        device: where to compute.
        options: passed on to the similarity, e.g. `alpha=16.0`.
    """
    member = Member(images, texts, similarity, options)
    return _report([member], owners, protocol, health, extras, max_memory, device)


def evaluate_ensemble(
    members: Sequence[Member],
    owners: Owners,
    protocol: str | Protocol = "full",
    *,
    extras: Mapping[str, Any] | None = None,
    max_memory: int = MAX_MEMORY,
    device: torch.device | str | None = None,
) -> Report:
    """Evaluate several models by the mean of their similarities; there is no health of a mean."""
    noted = {"ensemble of": len(members), **(extras or {})}
    return _report(members, owners, protocol, False, noted, max_memory, device)


def _report(
    members: Sequence[Member],
    owners: Owners,
    protocol: str | Protocol,
    health: bool,
    extras: Mapping[str, Any] | None,
    max_memory: int,
    device: torch.device | str | None,
) -> Report:
    found = run_protocol(members, owners, protocol, max_memory=max_memory, device=device)
    first = members[0]
    return Report(
        protocol=found.protocol.name,
        n_images=len(first.images),
        n_captions=len(first.texts),
        image_to_text=found.image_to_text,
        text_to_image=found.text_to_image,
        health=set_health(first.images, first.texts, owners) if health else None,
        extras=dict(extras or {}),
        ranks=found.ranks,
    )
