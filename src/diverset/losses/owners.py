"""Which caption belongs to which image, checked before a loss relies on it."""

import torch
from torch import Tensor

from diverset.errors import InputError, ShapeError


def check_owners(owners: Tensor, images: int, texts: int) -> Tensor:
    """Owners as int64, one a caption, each the row of an image."""
    if not isinstance(owners, Tensor) or owners.is_floating_point() or owners.dtype == torch.bool:
        kind = owners.dtype if isinstance(owners, Tensor) else type(owners).__name__
        raise InputError(f"owners are {kind}; give a tensor of whole numbers, the rows of images")
    if owners.shape != (texts,) or not texts:
        raise ShapeError(
            f"{tuple(owners.shape)} owners for {texts} captions; give one image index a caption, "
            "and at least one caption"
        )
    owners = owners.long()
    if int(owners.min()) < 0 or int(owners.max()) >= images:
        raise InputError(
            f"owners run from {int(owners.min())} to {int(owners.max())} for {images} images"
        )
    return owners


def check_scores(scores: Tensor) -> tuple[int, int]:
    """The numbers of images and texts of a similarity matrix."""
    if scores.ndim != 2:
        raise ShapeError(f"scores have shape {tuple(scores.shape)}; give (images, texts)")
    return scores.shape[0], scores.shape[1]
