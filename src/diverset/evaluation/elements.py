"""Select single elements of sets, to evaluate what they contribute."""

from __future__ import annotations

from collections.abc import Sequence

from jaxtyping import Float
from torch import Tensor

from diverset.errors import OptionError, ShapeError


def select_elements(
    sets: Float[Tensor, "items elements dim"], elements: Sequence[int] | int | None
) -> Float[Tensor, "items chosen dim"]:
    """The same sets with only these elements, counted from 0; None keeps all.

    >>> import torch
    >>> select_elements(torch.eye(3)[None], [2, 0]).tolist()
    [[[0.0, 0.0, 1.0], [1.0, 0.0, 0.0]]]
    """
    if elements is None:
        return sets
    if sets.ndim != 3:
        raise ShapeError(
            f"the sets have shape {tuple(sets.shape)}; a batch of sets is (items, elements, dim)"
        )
    return sets[:, check_elements(elements, sets.shape[1])]


def check_elements(elements: Sequence[int] | int, size: int) -> list[int]:
    """Indices of elements as a list; raise unless sets of this size have them, each once."""
    indices = [elements] if isinstance(elements, int) else list(elements)
    outside = any(not 0 <= index < size for index in indices)
    if outside or not indices or len(set(indices)) < len(indices):
        raise OptionError(
            f"cannot select the elements with indices {indices} of sets of {size}; select each at "
            f"most once, from 0 to {size - 1} (on the command line from 1 to {size})"
        )
    return indices
