"""One large batch over several processes: the sets of all processes, with gradients.

Negatives are mined over the global batch, so every process needs the sets of all processes and
computes the whole loss. The gradient of a set is the sum over processes. Because gradients of
weights are averaged over processes afterwards, the result equals that of one process with the
whole batch.
"""

from __future__ import annotations

from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor
from torch.nn import functional as F

from diverset.types import EmbeddingSets, Features, Gaussian


def gather_sets(sets: EmbeddingSets, with_features: bool = False) -> EmbeddingSets:
    """The sets of all processes, ordered by rank; their features only if a loss reads them."""
    if not _is_distributed():
        return sets
    gaussian = sets.gaussian
    if gaussian is not None:
        gaussian = Gaussian(**{name: gather_rows(rows) for name, rows in vars(gaussian).items()})
    pooled = None if sets.pooled is None else gather_rows(sets.pooled)
    features = sets.features if with_features else None
    if features is not None:
        features = Features(
            gather_rows(features.local), gather_rows(features.mask), gather_rows(features.pooled)
        )
    return EmbeddingSets(
        gather_rows(sets.elements), gather_rows(sets.slots), (), gaussian, pooled, features
    )


def gather_image_index(image_index: Tensor, images: int) -> Tensor:
    """The image of every caption of all processes, as a row of the gathered images."""
    if not _is_distributed():
        return image_index
    counts = _gather_counts(torch.tensor(images, device=image_index.device))
    return gather_rows(image_index + sum(counts[: dist.get_rank()]))


def gather_rows(rows: Tensor) -> Tensor:
    """The rows of all processes, ordered by rank; their numbers may differ.

    Rows of local features also differ in their number of inputs; they are padded with zeros.
    """
    if not _is_distributed():
        return rows
    if rows.ndim > 1:
        inputs = max(_gather_counts(torch.tensor(rows.shape[1], device=rows.device)))
        rows = F.pad(rows, (*[0, 0] * (rows.ndim - 2), 0, inputs - rows.shape[1]))
    counts = _gather_counts(torch.tensor(len(rows), device=rows.device))
    padded = torch.cat([rows, rows.new_zeros(max(counts) - len(rows), *rows.shape[1:])])
    gathered: Tensor = _AllGather.apply(padded)  # type: ignore[no-untyped-call]
    return torch.cat([part[:count] for part, count in zip(gathered, counts, strict=True)])


class _AllGather(torch.autograd.Function):
    """(rows, ...) -> (processes, rows, ...); the gradient is summed over processes."""

    @staticmethod
    def forward(ctx: Any, rows: Tensor) -> Tensor:
        parts = [torch.empty_like(rows) for _ in range(dist.get_world_size())]
        dist.all_gather(parts, rows.contiguous())
        return torch.stack(parts)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> Tensor:
        gradient = gradient.contiguous()
        dist.all_reduce(gradient)
        return gradient[dist.get_rank()]


def _gather_counts(count: Tensor) -> list[int]:
    counts = [torch.zeros_like(count) for _ in range(dist.get_world_size())]
    dist.all_gather(counts, count)
    return [int(count) for count in counts]


def _is_distributed() -> bool:
    return dist.is_available() and dist.is_initialized() and dist.get_world_size() > 1
