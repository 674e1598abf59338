"""Checks of embedding sets, similarity matrices and image indices, shared by the packages below.

Shapes and types are always checked. Values are checked only where reading them costs no device
synchronisation (`diverset.types.can_inspect`).
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from jaxtyping import Int
from numpy.typing import NDArray
from torch import Tensor

from diverset.errors import InputError, ShapeError
from diverset.types import can_inspect

CHECKED_AT_ONCE = 2**18  # numbers
UNIT_TOLERANCE = 1e-2  # allows for sets stored in bfloat16, which has 8 significant bits

ImageIndex = Sequence[int] | NDArray[np.integer] | Int[Tensor, " texts"]


def check_sets(images: Tensor, texts: Tensor) -> None:
    """Raise unless both are batches of l2-normalised sets of the same width."""
    check_set_shape("images", images)
    check_set_shape("texts", texts)
    check_same_width(images, texts)
    check_unit_length("images", images)
    check_unit_length("texts", texts)


def check_set_shape(name: str, sets: Tensor) -> None:
    """Raise unless `sets` is a floating-point tensor (items, elements, dim)."""
    if not isinstance(sets, Tensor):
        raise InputError(f"{name} is a {type(sets).__name__}; give a torch tensor")
    if sets.ndim != 3 or 0 in sets.shape[1:]:
        raise ShapeError(
            f"{name} has shape {tuple(sets.shape)}; a batch of sets is (items, elements, dim)"
        )
    if not sets.is_floating_point():
        raise InputError(f"{name} holds {sets.dtype}; embedding sets are floating point")


def check_same_width(images: Tensor, texts: Tensor) -> None:
    """Raise unless the elements of both have the same number of dimensions."""
    if images.shape[-1] != texts.shape[-1]:
        raise ShapeError(
            f"images are {images.shape[-1]} wide and texts {texts.shape[-1]}; "
            "compare sets of one model, with the same dim"
        )


def check_unit_length(name: str, sets: Tensor) -> None:
    """Raise unless every element has norm 1, within `UNIT_TOLERANCE`."""
    if not can_inspect(sets):
        return
    # In parts, because torch converts all of them first.
    parts = torch.split(sets.detach(), max(1, CHECKED_AT_ONCE // max(1, sets[:1].numel())))
    precision = torch.promote_types(sets.dtype, torch.float32)
    norms = torch.cat([torch.linalg.vector_norm(x, dim=-1, dtype=precision) for x in parts])
    good = (norms - 1).abs() <= UNIT_TOLERANCE  # False for NaN as well
    if good.all():
        return
    item, element = (~good).nonzero()[0].tolist()
    raise InputError(
        f"element {element} of {name}[{item}] has norm {norms[item, element].item():.4g}, not 1; "
        "pass sets through torch.nn.functional.normalize, and look for NaN where the norm is nan"
    )


def check_scores(scores: Tensor) -> tuple[int, int]:
    """The numbers of images and texts of a similarity matrix."""
    if scores.ndim != 2:
        raise ShapeError(f"scores have shape {tuple(scores.shape)}; give (images, texts)")
    return scores.shape[0], scores.shape[1]


def check_image_index(image_index: ImageIndex, images: int, texts: int) -> Int[Tensor, " texts"]:
    """The image row of every text as int64; raise unless each is a row of `images`.

    >>> check_image_index([0, 0, 2], images=2, texts=3)
    Traceback (most recent call last):
    ...
    diverset.errors.InputError: text 2 belongs to image 2, but there are 2 images; ...
    """
    if not isinstance(image_index, Tensor):
        array = np.asarray(image_index)
        integers = array.dtype.kind in "iu"
        image_index = torch.from_numpy(array.astype(np.int64)) if integers else torch.empty(0)
        dtype: object = array.dtype
    else:
        dtype = image_index.dtype
        integers = not (image_index.is_floating_point() or dtype in (torch.bool, torch.complex64))
    if not integers:
        raise InputError(f"image_index holds {dtype}; give integers, the image row of every text")
    if image_index.shape != (texts,) or not texts:
        raise ShapeError(
            f"image_index has shape {tuple(image_index.shape)} for {texts} texts; "
            "give one image row per text, and at least one text"
        )
    image_index = image_index.long()
    if can_inspect(image_index):
        outside = ((image_index < 0) | (image_index >= images)).nonzero()
        if len(outside):
            text = int(outside[0])
            raise InputError(
                f"text {text} belongs to image {int(image_index[text])}, but there are {images} "
                f"images; image_index goes from 0 to {images - 1}"
            )
    return image_index
