"""One large batch over several processes: everybody's sets, with gradients.

Negatives are mined over the global batch, so each process needs the sets of all. Every process
computes the whole loss; the gradient of a set is then the sum of what all processes have for it,
and since the gradients of weights are averaged over processes afterwards, the result is that of
one process with the whole batch.
"""

from __future__ import annotations

import dataclasses

import torch
import torch.distributed as dist
from torch import Tensor
from torch.distributed.nn.functional import all_gather as all_gather_with_gradients

from diverset.types import EmbeddingSets, Gaussian


def gather_sets(sets: EmbeddingSets) -> EmbeddingSets:
    """The sets of all processes, in the order of their ranks."""
    if not _several():
        return sets
    gaussian = sets.gaussian
    if gaussian is not None:
        parts = {
            f.name: gather_rows(getattr(gaussian, f.name)) for f in dataclasses.fields(gaussian)
        }
        gaussian = Gaussian(**parts)
    pooled = None if sets.pooled is None else gather_rows(sets.pooled)
    return EmbeddingSets(gather_rows(sets.elements), gather_rows(sets.slots), (), gaussian, pooled)


def gather_owners(owners: Tensor, images: int) -> Tensor:
    """Owners of all captions, counted over the images of all processes."""
    if not _several():
        return owners
    counts = _counts(torch.tensor(images, device=owners.device))
    before = sum(counts[: dist.get_rank()])
    return gather_rows(owners + before)


def gather_places(places: Tensor) -> Tensor:
    """Places in the split of all processes' items."""
    return gather_rows(places) if _several() else places


def gather_rows(rows: Tensor) -> Tensor:
    """All processes' rows, one after the other; processes may have different numbers of them."""
    counts = _counts(torch.tensor(len(rows), device=rows.device))
    longest = max(counts)
    padded = torch.cat([rows, rows.new_zeros(longest - len(rows), *rows.shape[1:])])
    if rows.requires_grad:
        parts = list(all_gather_with_gradients(padded))  # type: ignore[no-untyped-call]
    else:
        parts = [torch.empty_like(padded) for _ in counts]
        dist.all_gather(parts, padded)
    return torch.cat([part[:count] for part, count in zip(parts, counts, strict=True)])


def _counts(number: Tensor) -> list[int]:
    found = [torch.zeros_like(number) for _ in range(dist.get_world_size())]
    dist.all_gather(found, number)
    return [int(one) for one in found]


def _several() -> bool:
    return dist.is_available() and dist.is_initialized() and dist.get_world_size() > 1
