"""Are the sets still sets? Their spread, and which elements do the work.

Set collapsing (Sec. 3.3, 4.6) shows in the circular variance of a set, 1 - ||mean of its
elements||: it nears 0 when all elements are one. The paper's Table 3 reports "log(Var.)" without
saying whether the logarithm or the mean was taken first, so both are given, with the natural
logarithm. This module does not know ranks or models.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

from diverset.evaluation.members import Owners, check_owners
from diverset.similarity import check_sets

LEAST_VARIANCE = 1e-12  # log(0) is reported as the logarithm of this
CHUNK_BYTES = 64 * 2**20


@dataclass(frozen=True)
class SetHealth:
    """The sets of one side.

    Attributes:
        elements: the number of elements of a set.
        mean_log_variance: E[log v] of the circular variance v; natural logarithm. None, like the
            next two, for sets of one element, which have no spread.
        log_mean_variance: log E[v]; natural logarithm.
        mean_cosine: between two elements of one set, on average.
        slot_use: for each element the share of matching pairs that it carries, by having the
            highest cosine of the pair. Elements that tie share a pair.
    """

    elements: int
    mean_log_variance: float | None
    log_mean_variance: float | None
    mean_cosine: float | None
    slot_use: tuple[float, ...]


@dataclass(frozen=True)
class Health:
    """The sets of both sides."""

    images: SetHealth
    texts: SetHealth


@torch.no_grad()
def set_health(
    images: Float[Tensor, "images slots dim"],
    texts: Float[Tensor, "texts text_slots dim"],
    owners: Owners,
) -> Health:
    """Look at all sets, and at the pairs (image, text) that belong together.

    >>> basis = torch.eye(2)[None]  # a set of two orthogonal elements
    >>> found = set_health(basis, basis[:, :1], owners=[0])
    >>> round(found.images.mean_cosine, 6), found.images.slot_use
    (0.0, (1.0, 0.0))
    >>> round(found.images.log_mean_variance, 4)  # log(1 - sqrt(1/2))
    -1.2279
    """
    check_sets(images, texts)
    owner_of = torch.from_numpy(check_owners(owners, len(images), len(texts)))
    image_use = torch.zeros(images.shape[1], dtype=torch.float64)
    text_use = torch.zeros(texts.shape[1], dtype=torch.float64)
    pair_bytes = 8 * images.shape[2] * (images.shape[1] + texts.shape[1])
    step = max(1, CHUNK_BYTES // pair_bytes)
    for start in range(0, len(texts), step):
        theirs = texts[start : start + step].double()
        ours = images[owner_of[start : start + step]].to(theirs.device).double()
        cosines = ours @ theirs.transpose(1, 2)
        image_use += _carriers(cosines.amax(dim=2)).cpu()
        text_use += _carriers(cosines.amax(dim=1)).cpu()
    return Health(
        _side(images, image_use / len(texts)),
        _side(texts, text_use / len(texts)),
    )


def circular_variance(
    sets: Float[Tensor, "items elements dim"],
) -> Float[Tensor, " items"]:
    """1 - ||mean of the elements|| of every set, in float64 from re-normalised elements.

    >>> circular_variance(torch.ones(1, 3, 1)).item()  # three times the same element
    0.0
    """
    step = max(1, CHUNK_BYTES // (8 * sets.shape[1] * sets.shape[2]))
    found = [
        # Rounding of stored elements would show in sets that have almost collapsed.
        1 - torch.nn.functional.normalize(part.double(), dim=-1).mean(dim=1).norm(dim=-1)
        for part in (sets[start : start + step] for start in range(0, len(sets), step))
    ]
    return torch.cat(found).clamp(min=0)


def _carriers(best: Float[Tensor, "pairs elements"]) -> Float[Tensor, " elements"]:
    """How many pairs each element carries, ties shared."""
    highest = (best == best.amax(dim=1, keepdim=True)).double()
    return (highest / highest.sum(dim=1, keepdim=True)).sum(dim=0)


def _side(sets: Tensor, use: Tensor) -> SetHealth:
    count, shares = sets.shape[1], tuple(use.tolist())
    if count == 1:
        return SetHealth(count, None, None, None, shares)
    variance = circular_variance(sets)
    # ||mean||^2 is the mean of all K^2 cosines, K of which are those of elements with themselves.
    cosines = (count * (1 - variance).square() - 1) / (count - 1)
    return SetHealth(
        elements=count,
        mean_log_variance=float(variance.clamp(min=LEAST_VARIANCE).log().mean()),
        log_mean_variance=math.log(max(float(variance.mean()), LEAST_VARIANCE)),
        mean_cosine=float(cosines.mean()),
        slot_use=shares,
    )
