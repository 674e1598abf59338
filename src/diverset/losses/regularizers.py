"""What is added to the triplet loss: MMD, the paper's diversity and PVSE's Gram diversity."""

from collections.abc import Callable
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor
from torch.autograd.function import once_differentiable
from torch.nn import functional as F

from diverset.errors import ShapeError

MMD_RATE = 0.5
KERNEL_ROWS = 256  # with a few thousand columns they stay in a core's cache
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
    x, y = _precise(images.flatten(0, 1)), _precise(texts.flatten(0, 1))
    # mean k(x, x') + mean k(y, y') - 2 mean k(x, y) is one quadratic form over all elements.
    shares = torch.cat([x.new_full((len(x),), 1 / len(x)), y.new_full((len(y),), -1 / len(y))])
    apply: Callable[[Tensor, Tensor], Tensor] = _WeightedKernel.apply
    return apply(torch.cat([x, y.to(x)]), shares)


class _WeightedKernel(torch.autograd.Function):
    """Sum over i and j of w_i w_j exp(-||z_i - z_j|| / 2), with its gradient in the same pass.

    Through autograd, half a dozen matrices of all pairs went through memory, a quarter of a
    bfloat16 step. Here blocks of rows stay in the cache, and a pair is computed once, not twice.
    """

    @staticmethod
    def forward(ctx: Any, z: Tensor, weights: Tensor) -> Tensor:
        # Distances of near elements are differences of near numbers: not in bfloat16.
        with torch.autocast(z.device.type, enabled=False):
            total, gradient = _kernel_sum(z, weights)
        ctx.save_for_backward(gradient)
        return total

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, upstream: Tensor) -> tuple[Tensor, None]:
        (gradient,) = ctx.saved_tensors
        return upstream * gradient, None


def _kernel_sum(
    z: Float[Tensor, "elements dim"], weights: Float[Tensor, " elements"]
) -> tuple[Float[Tensor, ""], Float[Tensor, "elements dim"]]:
    total, gradient = z.new_zeros(()), torch.zeros_like(z)
    lengths = z.square().sum(dim=-1)
    floor = torch.finfo(z.dtype).eps  # nearer elements count as equal: the root's slope is infinite
    for start in range(0, len(z), KERNEL_ROWS):
        # Columns before `start` were met as rows; what follows this block counts for both orders.
        end = min(start + KERNEL_ROWS, len(z))
        rows, columns, later = z[start:end], z[start:], z[end:]
        distance = torch.addmm(lengths[start:], rows, columns.T, alpha=-2)
        distance += lengths[start:end, None]
        distance.diagonal().zero_()  # exactly, in spite of rounding
        distance.clamp_min_(floor**2).sqrt_()
        kernel = (distance * -MMD_RATE).exp_()
        by_column = weights[start:end] @ kernel
        own = end - start
        total += by_column[:own] @ weights[start:end] + 2 * (by_column[own:] @ weights[end:])
        # k'(d) / d for every pair; the difference of the elements comes with the products.
        slope = kernel.div_(distance.masked_fill_(distance <= floor, torch.inf))
        slope *= (-2 * MMD_RATE * weights[start:end])[:, None]
        slope *= weights[start:]
        gradient[start:end] += slope.sum(dim=1)[:, None] * rows - slope @ columns
        mirrored = slope[:, own:]
        gradient[end:] += mirrored.sum(dim=0)[:, None] * later - mirrored.T @ rows
    return total, gradient


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
