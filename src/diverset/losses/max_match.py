"""Two losses that keep a set from collapsing, after MaxMatch (ACL 2025); training only.

This is our reading of a description, not of its code: elements are pushed off the global feature,
and pairs of elements of one set are penalised where their cosine exceeds a margin. Both are hinges
on cosines, so that what is spread enough is left alone. Nothing changes at inference.
"""

import torch
from jaxtyping import Float
from torch import Tensor
from torch.nn import functional as F

from diverset.errors import ShapeError


def off_global(
    elements: Float[Tensor, "batch slots dim"],
    pooled: Float[Tensor, "batch dim"],
    margin: float = 0.0,
) -> Float[Tensor, ""]:
    """max(0, cos(element, global) - margin), mean over all elements of a batch.

    >>> off_global(torch.eye(2)[None], torch.tensor([[1.0, 0.0]]), margin=0.5)
    tensor(0.2500)
    """
    if elements.ndim != 3 or pooled.shape != (elements.shape[0], elements.shape[2]):
        raise ShapeError(
            f"elements are {tuple(elements.shape)} and global features {tuple(pooled.shape)}; give "
            "(batch, elements, dim) and (batch, dim)"
        )
    unit, centre = _unit(elements), _unit(pooled)
    return F.relu((unit * centre[:, None]).sum(dim=-1) - margin).mean()


def within_set(
    elements: Float[Tensor, "batch slots dim"], margin: float = 0.5
) -> Float[Tensor, ""]:
    """max(0, cos(element, other) - margin), mean over pairs of one set and over the batch.

    Sets of one element have no pairs and give 0.

    >>> within_set(torch.ones(1, 3, 2), margin=0.25)
    tensor(0.7500)
    """
    if elements.ndim != 3:
        raise ShapeError(f"elements are {tuple(elements.shape)}; give (batch, elements, dim)")
    size = elements.shape[1]
    if size == 1:
        return elements.sum() * 0
    unit = _unit(elements)
    first, second = torch.triu_indices(size, size, offset=1, device=unit.device)
    return F.relu((unit[:, first] * unit[:, second]).sum(dim=-1) - margin).mean()


def _unit(values: Tensor) -> Tensor:
    return F.normalize(values.to(torch.promote_types(values.dtype, torch.float32)), dim=-1)
