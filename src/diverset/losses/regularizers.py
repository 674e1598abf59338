"""What is added to the triplet loss: MMD, the paper's diversity and PVSE's Gram diversity."""

import torch
from jaxtyping import Float
from torch import Tensor
from torch.nn import functional as F

from diverset.errors import ShapeError

MMD_RATE = 0.5
DIVERSITY_RATE = 2.0


def mmd(
    images: Float[Tensor, "images slots dim"], texts: Float[Tensor, "texts text_slots dim"]
) -> Float[Tensor, ""]:
    """Maximum mean discrepancy between all image and all text elements of a batch.

    Kernel exp(-||x - y|| / 2) on l2-normalised elements, the distance not squared, diagonal
    included. It keeps the two modalities from drifting apart early in training.
    """
    _check_sets(images, "images")
    _check_sets(texts, "texts")
    if images.shape[-1] != texts.shape[-1]:
        raise ShapeError(f"images are {images.shape[-1]} wide, texts {texts.shape[-1]}")
    x, y = images.flatten(0, 1), texts.flatten(0, 1)
    # Distances of near elements are differences of near numbers: not in bfloat16.
    with torch.autocast(x.device.type, enabled=False):
        kernel = _distance_kernel(_precise(torch.cat([x, y])))
    xx, xy, yy = kernel[: len(x), : len(x)], kernel[: len(x), len(x) :], kernel[len(x) :, len(x) :]
    return xx.mean() + yy.mean() - 2 * xy.mean()


def _distance_kernel(z: Float[Tensor, "elements dim"]) -> Float[Tensor, "elements elements"]:
    """exp(-||z_i - z_j|| / 2) by a matrix product, which torch.cdist's gradient does not use."""
    lengths = z.square().sum(dim=-1)
    squared = lengths[:, None] + lengths - 2 * (z @ z.T)
    squared.fill_diagonal_(0.0)  # exactly, in spite of rounding
    # The root's gradient is infinite at 0; below the floor it is 0.
    distance = squared.clamp_min(torch.finfo(squared.dtype).eps ** 2).sqrt()
    return (-MMD_RATE * distance).exp()


def diversity(slots: Float[Tensor, "batch slots dim"]) -> Float[Tensor, ""]:
    """exp(-2 ||x - x'||^2) over the pairs of a set's normalised slots, mean over the batch.

    Sets of one element have nothing to spread and give 0.
    """
    _check_sets(slots, "slots")
    size = slots.shape[1]
    if size == 1:
        return slots.sum() * 0
    unit = F.normalize(_precise(slots), dim=-1)
    first, second = torch.triu_indices(size, size, offset=1, device=slots.device)
    squared = (unit[:, first] - unit[:, second]).square().sum(dim=-1)
    return (-DIVERSITY_RATE * squared).exp().mean()


def gram_diversity(slots: Float[Tensor, "batch slots dim"]) -> Float[Tensor, ""]:
    """PVSE: Frobenius norm of the off-diagonal Gram matrix over K^2, mean over the batch."""
    _check_sets(slots, "slots")
    size = slots.shape[1]
    if size == 1:
        return slots.sum() * 0
    unit = F.normalize(_precise(slots), dim=-1)
    with torch.autocast(unit.device.type, enabled=False):
        gram = unit @ unit.transpose(1, 2)
    off_diagonal = gram - torch.eye(size, device=gram.device, dtype=gram.dtype)
    norms: Tensor = torch.linalg.matrix_norm(off_diagonal)
    return norms.mean() / size**2


def _precise(values: Tensor) -> Tensor:
    return values.to(torch.promote_types(values.dtype, torch.float32))


def _check_sets(sets: Tensor, name: str) -> None:
    if sets.ndim != 3:
        raise ShapeError(f"{name} has shape {tuple(sets.shape)}; give (batch, elements, dim)")
