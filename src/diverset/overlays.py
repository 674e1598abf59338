"""What each slot took of a picture: its map, and the map drawn over the picture."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import torch
from jaxtyping import Float
from PIL import Image
from torch import Tensor

from diverset.data.preprocess import Preprocess
from diverset.encoder import Inputs
from diverset.errors import OptionError
from diverset.inputs import evaluation_mode
from diverset.model import Model

COLOURS = (
    (0, 114, 178),
    (213, 94, 0),
    (0, 158, 115),
    (204, 121, 167),
    (240, 228, 66),
    (86, 180, 233),
)
"""Okabe and Ito's, which colour-blind people can tell apart."""
Share = Float[Tensor, "rows columns"]


@torch.no_grad()
def slot_maps(model: Model, inputs: Inputs) -> Float[Tensor, "pictures slots rows columns"]:
    """The share of every cell that each slot won in the last iteration, mean over heads.

    Args:
        model: one that reads maps.
        inputs: what its picture encoder reads.
    """
    with evaluation_mode(model):
        found = model.image_encoder(inputs.to(model.device), with_attention=True).attention
    if not found:
        raise OptionError(
            f"sets of kind {model.architecture.image_set.kind} have no attention to draw; use a "
            "model with slots"
        )
    last: Tensor = found[-1].mean(dim=1).cpu()
    side = int(last.shape[-1] ** 0.5)
    return last.view(*last.shape[:2], side, side)


def overlay(
    picture: Image.Image, share: Share, colour: tuple[int, int, int] = COLOURS[0]
) -> Image.Image:
    """Grey where a slot took nothing, its colour where it took much."""
    dim = Image.blend(
        picture.convert("L").convert("RGB"), Image.new("RGB", picture.size, "white"), 0.5
    )
    tinted = Image.blend(picture, Image.new("RGB", picture.size, colour), 0.25)
    return Image.composite(tinted, dim, mask_of(share, picture.size))


def mask_of(share: Share, size: tuple[int, int]) -> Image.Image:
    """A slot's map as grey levels, from its smallest share to its largest."""
    low, high = float(share.min()), float(share.max())
    scaled = ((share - low) / max(high - low, 1e-6) * 255).numpy().astype(np.uint8)
    return Image.fromarray(scaled).resize(size, Image.Resampling.BICUBIC)


def shown(preprocess: Preprocess, picture: Image.Image, side: int) -> Image.Image:
    """The part of a picture that the network sees, in its own proportions, to draw maps over."""
    if preprocess.crop == "squash":
        scale = side / max(picture.size)
        size = (max(1, round(picture.width * scale)), max(1, round(picture.height * scale)))
        return picture.resize(size, Image.Resampling.LANCZOS)
    return replace(preprocess, size=side, resize=_resize(preprocess, side)).resized(picture)


def _resize(preprocess: Preprocess, side: int) -> int:
    return preprocess.resize * side // preprocess.size if preprocess.resize else 0
