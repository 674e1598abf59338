"""From what callers have at hand to padded batches, checked.

Lists of arrays, numpy arrays and padded tensors become `Padded`; shapes that cannot be meant and
numbers that are not finite are refused with the place they stand at.
"""

from __future__ import annotations

from os import PathLike
from typing import Any

import numpy as np
import torch
from PIL.Image import Image
from torch import Tensor
from torch.nn import functional as F

from diverset.data.images import open_picture
from diverset.errors import InputError, OptionError, ShapeError
from diverset.types import Maps, Padded


def is_picture(value: object) -> bool:
    """Whether this is an opened picture or the path of one, rather than numbers."""
    return isinstance(value, str | PathLike | Image)


def opened(picture: Any) -> Image:
    """A picture as upright RGB, opened where a path was given."""
    return picture.convert("RGB") if isinstance(picture, Image) else open_picture(picture)


def batches(inputs: Padded | Maps | Tensor, size: int) -> list[Any]:
    starts = range(0, len(inputs), size)
    if isinstance(inputs, Maps):
        inputs = inputs.values  # only training leaves cells out
    if isinstance(inputs, Tensor):
        return [inputs[start : start + size] for start in starts]
    values, mask = inputs.values, inputs.mask
    return [_trimmed(values[start : start + size], mask[start : start + size]) for start in starts]


def _trimmed(values: Tensor, mask: Tensor) -> Padded:
    longest = int(mask.sum(dim=1).max())
    return Padded(values[:, :longest], mask[:, :longest])


def as_padded(name: str, inputs: Any, lengths: Any, dims: int) -> Padded:
    if isinstance(inputs, np.ndarray):
        inputs = torch.from_numpy(inputs)
    if not isinstance(inputs, Tensor):
        if lengths is not None:
            raise OptionError(f"lengths go with a padded tensor; {name} is a list")
        sequences = [torch.as_tensor(one) for one in inputs]
        for place, one in enumerate(sequences):
            if one.ndim != dims or len(one) == 0:
                raise ShapeError(
                    f"{name}[{place}] has shape {tuple(one.shape)}; expected "
                    f"{'(inputs, width)' if dims == 2 else '(words,)'} with at least one input"
                )
            if dims == 2 and one.shape[1] != sequences[0].shape[1]:
                raise ShapeError(
                    f"{name}[{place}] is {one.shape[1]} wide and {name}[0] {sequences[0].shape[1]};"
                    " all inputs of a batch come from one extractor"
                )
        padded = Padded.of(sequences)
    else:
        if inputs.ndim != dims + 1 or 0 in inputs.shape:
            raise ShapeError(
                f"{name} has shape {tuple(inputs.shape)}; expected a batch of "
                f"{'(inputs, width)' if dims == 2 else '(words,)'}"
            )
        if lengths is None:
            lengths = torch.full((len(inputs),), inputs.shape[1])
        padded = Padded.from_lengths(inputs, lengths)
    if padded.values.is_floating_point():
        check_finite(name, padded.values)
        padded = Padded(padded.values.float(), padded.mask)
    return padded


def check_finite(name: str, values: Tensor) -> None:
    if not values.isfinite().all():
        place = int((~values.isfinite()).flatten(1).any(dim=1).nonzero()[0])
        raise InputError(f"{name}[{place}] holds NaN or infinity; look at how it was extracted")


def lengths_of_ids(ids: Tensor) -> Tensor:
    """Up to the last word that is not padding (id 0)."""
    places = torch.arange(1, ids.shape[-1] + 1, device=ids.device)
    return ((ids != 0) * places).amax(dim=-1)


def join_sets(batches: list[Tensor]) -> Tensor:
    """Sets of several batches as one tensor; local sets differ in size and get zero rows."""
    largest = max(one.shape[1] for one in batches)
    return torch.cat([F.pad(one, (0, 0, 0, largest - one.shape[1])) for one in batches])
