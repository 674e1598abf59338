"""Health of sets: whether they have collapsed, and which elements carry the matches.

Set collapsing (Sec. 3.3, 4.6) shows in the circular variance of a set, 1 - ||mean of its
elements||, which is 0 if all elements are equal. The paper's Table 3 reports "log(Var.)" without
saying whether the logarithm or the mean was taken first, so both are given (natural logarithm).
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

from diverset.evaluation.ensemble import check_collection
from diverset.similarity import ImageIndex, check_sets

MIN_VARIANCE = 1e-12  # smaller variances are clamped before the logarithm
CHUNK_BYTES = 64 * 2**20


@dataclass(frozen=True)
class SetHealth:
    """The sets of one side.

    Attributes:
        elements: number of elements per set.
        mean_log_variance: E[log v] of the circular variance v. None, like the next two, for sets
            of one element.
        log_mean_variance: log E[v].
        mean_cosine: mean cosine between two different elements of a set.
        slot_use: for each element the fraction of matching pairs in which it has the highest
            cosine. Elements that tie share a pair.
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
    image_index: ImageIndex,
) -> Health:
    """Measure all sets, and the matching pairs of image and text.

    >>> basis = torch.eye(2)[None]  # a set of two orthogonal elements
    >>> health = set_health(basis, basis[:, :1], image_index=[0])
    >>> round(health.images.mean_cosine, 6), health.images.slot_use
    (0.0, (1.0, 0.0))
    >>> round(health.images.log_mean_variance, 4)  # log(1 - sqrt(1/2))
    -1.2279
    """
    check_sets(images, texts)
    index = torch.from_numpy(check_collection(image_index, len(images), len(texts)))
    image_use = torch.zeros(images.shape[1], dtype=torch.float64)
    text_use = torch.zeros(texts.shape[1], dtype=torch.float64)
    pair_bytes = 8 * images.shape[2] * (images.shape[1] + texts.shape[1])
    step = max(1, CHUNK_BYTES // pair_bytes)
    for start in range(0, len(texts), step):
        text_sets = texts[start : start + step].double()
        image_sets = images[index[start : start + step]].to(text_sets.device).double()
        cosines = image_sets @ text_sets.transpose(1, 2)
        image_use += _pairs_per_element(cosines.amax(dim=2)).cpu()
        text_use += _pairs_per_element(cosines.amax(dim=1)).cpu()
    return Health(_side(images, image_use / len(texts)), _side(texts, text_use / len(texts)))


def circular_variance(
    sets: Float[Tensor, "items elements dim"],
) -> Float[Tensor, " items"]:
    """1 - ||mean of the elements|| of every set, in float64 from re-normalised elements.

    >>> circular_variance(torch.ones(1, 3, 1)).item()  # three equal elements
    0.0
    """
    step = max(1, CHUNK_BYTES // (8 * sets.shape[1] * sets.shape[2]))
    variances = [
        # Without normalising again, rounding would dominate in almost collapsed sets.
        1 - torch.nn.functional.normalize(chunk.double(), dim=-1).mean(dim=1).norm(dim=-1)
        for chunk in torch.split(sets, step)
    ]
    return torch.cat(variances).clamp(min=0)


def _pairs_per_element(best: Float[Tensor, "pairs elements"]) -> Float[Tensor, " elements"]:
    """In how many pairs each element has the highest cosine; ties are shared."""
    highest = (best == best.amax(dim=1, keepdim=True)).double()
    return (highest / highest.sum(dim=1, keepdim=True)).sum(dim=0)


def _side(sets: Tensor, use: Tensor) -> SetHealth:
    size, slot_use = sets.shape[1], tuple(use.tolist())
    if size == 1:
        return SetHealth(size, None, None, None, slot_use)
    variance = circular_variance(sets)
    # ||mean||^2 is the mean of all K^2 cosines, K of which are of an element with itself.
    cosines = (size * (1 - variance).square() - 1) / (size - 1)
    return SetHealth(
        elements=size,
        mean_log_variance=float(variance.clamp(min=MIN_VARIANCE).log().mean()),
        log_mean_variance=math.log(max(float(variance.mean()), MIN_VARIANCE)),
        mean_cosine=float(cosines.mean()),
        slot_use=slot_use,
    )
