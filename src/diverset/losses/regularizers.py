"""Regularizers: L_mmd and L_div of Sec. 3.4, the Gram-matrix diversity of PVSE, and MaxMatch's two.

MaxMatch (ACL 2025) is written from the description in its paper, not from its code: elements are
pushed away from the global feature and from each other.
"""

from collections.abc import Callable
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor
from torch.autograd.function import once_differentiable
from torch.nn import functional as F

from diverset.errors import ShapeError
from diverset.similarity import check_same_width, check_set_shape
from diverset.similarity.cosines import ImageSets, TextSets

Sets = Float[Tensor, "batch slots dim"]

MMD_RATE = 0.5
KERNEL_ROWS = 256  # with a few thousand columns they stay in a core's cache
DIVERSITY_RATE = 2.0


def mmd(images: ImageSets, texts: TextSets) -> Float[Tensor, ""]:
    """L_mmd: maximum mean discrepancy between all image and all text elements of a batch.

    The kernel is exp(-||x - y|| / 2), the distance not squared, diagonal included. It keeps the
    two modalities from drifting apart early in training.
    """
    check_set_shape("images", images)
    check_set_shape("texts", texts)
    check_same_width(images, texts)
    x, y = _at_least_float32(images.flatten(0, 1)), _at_least_float32(texts.flatten(0, 1))
    # mean k(x, x') + mean k(y, y') - 2 mean k(x, y) is one quadratic form over all elements.
    shares = torch.cat([x.new_full((len(x),), 1 / len(x)), y.new_full((len(y),), -1 / len(y))])
    apply: Callable[[Tensor, Tensor], Tensor] = _WeightedKernel.apply
    return apply(torch.cat([x, y.to(x)]), shares)


class _WeightedKernel(torch.autograd.Function):
    """Sum over i and j of w_i w_j exp(-||z_i - z_j|| / 2), with its gradient in the same pass.

    Autograd would move half a dozen matrices of all pairs through memory, a quarter of a bfloat16
    step. Here blocks of rows stay in the cache, and each pair is computed once, not twice.
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
    floor = torch.finfo(z.dtype).eps  # closer elements count as equal: the root has no slope at 0
    for start in range(0, len(z), KERNEL_ROWS):
        # Columns before `start` were done as rows; those after the block count for both orders.
        end = min(start + KERNEL_ROWS, len(z))
        rows, columns, later = z[start:end], z[start:], z[end:]
        distance = torch.addmm(lengths[start:], rows, columns.T, alpha=-2)
        distance += lengths[start:end, None]
        distance.diagonal().zero_()  # exactly, despite rounding
        distance.clamp_min_(floor**2).sqrt_()
        kernel = (distance * -MMD_RATE).exp_()
        by_column = weights[start:end] @ kernel
        own = end - start
        total += by_column[:own] @ weights[start:end] + 2 * (by_column[own:] @ weights[end:])
        # k'(d) / d of every pair; the products below multiply it by the elements' difference.
        slope = kernel.div_(distance.masked_fill_(distance <= floor, torch.inf))
        slope *= (-2 * MMD_RATE * weights[start:end])[:, None]
        slope *= weights[start:]
        gradient[start:end] += slope.sum(dim=1)[:, None] * rows - slope @ columns
        mirrored = slope[:, own:]
        gradient[end:] += mirrored.sum(dim=0)[:, None] * later - mirrored.T @ rows
    return total, gradient


def diversity(slots: Sets) -> Float[Tensor, ""]:
    """L_div: exp(-2 ||x - x'||^2), mean over the pairs x, x' of a set and over the batch.

    The paper sums over all pairs of slots E^T. As in the released code, x and x' are the
    l2-normalised slots after the layer norm, and the loss is a mean over unordered pairs
    (docs/adr/0002). Sets of one element give 0.
    """

    def similarity(x: Tensor, y: Tensor) -> Tensor:
        return (-DIVERSITY_RATE * (x - y).square().sum(dim=-1)).exp()

    return _mean_over_pairs("slots", slots, similarity)


def within_set(elements: Sets, margin: float = 0.5) -> Float[Tensor, ""]:
    """MaxMatch: max(0, cos(x, x') - margin), mean over the pairs of a set and over the batch.

    Sets of one element give 0.

    >>> within_set(torch.ones(1, 3, 2), margin=0.25)
    tensor(0.7500)
    """
    return _mean_over_pairs("elements", elements, lambda x, y: F.relu((x * y).sum(dim=-1) - margin))


def off_global(
    elements: Sets, pooled: Float[Tensor, "batch dim"], margin: float = 0.0
) -> Float[Tensor, ""]:
    """MaxMatch: max(0, cos(element, global feature) - margin), mean over all elements.

    >>> off_global(torch.eye(2)[None], torch.tensor([[1.0, 0.0]]), margin=0.5)
    tensor(0.2500)
    """
    if elements.ndim != 3 or pooled.shape != (elements.shape[0], elements.shape[2]):
        raise ShapeError(
            f"elements are {tuple(elements.shape)} and global features {tuple(pooled.shape)}; give "
            "(batch, elements, dim) and (batch, dim)"
        )
    return F.relu((_unit(elements) * _unit(pooled)[:, None]).sum(dim=-1) - margin).mean()


def gram_diversity(slots: Sets) -> Float[Tensor, ""]:
    """PVSE: Frobenius norm of the off-diagonal Gram matrix over K^2, mean over the batch."""
    check_set_shape("slots", slots)
    size = slots.shape[1]
    if size == 1:
        return slots.sum() * 0
    unit = _unit(slots)
    with torch.autocast(unit.device.type, enabled=False):
        gram = unit @ unit.transpose(1, 2)
    off_diagonal = gram - torch.eye(size, device=gram.device, dtype=gram.dtype)
    norms: Tensor = torch.linalg.matrix_norm(off_diagonal)
    return norms.mean() / size**2


def _mean_over_pairs(
    name: str, sets: Tensor, penalty: Callable[[Tensor, Tensor], Tensor]
) -> Float[Tensor, ""]:
    """The mean penalty of two different elements of a set, as unit vectors; 0 without pairs."""
    check_set_shape(name, sets)
    size = sets.shape[1]
    if size == 1:
        return sets.sum() * 0
    unit = _unit(sets)
    first, second = torch.triu_indices(size, size, offset=1, device=sets.device)
    return penalty(unit[:, first], unit[:, second]).mean()


def _unit(values: Tensor) -> Tensor:
    return F.normalize(_at_least_float32(values), dim=-1)


def _at_least_float32(values: Tensor) -> Tensor:
    return values.to(torch.promote_types(values.dtype, torch.float32))
