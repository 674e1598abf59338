"""The map of an element, such as the attention of a slot, drawn over its image."""

from __future__ import annotations

import numpy as np
from jaxtyping import Float
from PIL import Image
from torch import Tensor

from diverset.data.preprocess import Preprocess

COLOURS = (
    (0, 114, 178), (213, 94, 0), (0, 158, 115), (204, 121, 167), (240, 228, 66), (86, 180, 233),
)  # fmt: skip
"""The Okabe-Ito palette, distinguishable for colour-blind people."""
SlotMap = Float[Tensor, "rows columns"]


def attended_area(slot_map: SlotMap) -> float:
    """The share of cells with at least half of the slot's largest attention.

    >>> import torch
    >>> attended_area(torch.tensor([[0.9, 0.1], [0.5, 0.8]]))
    0.75
    """
    return float((slot_map >= slot_map.max() / 2).float().mean())


def overlay(
    image: Image.Image, slot_map: SlotMap, colour: tuple[int, int, int] = COLOURS[0]
) -> Image.Image:
    """The image in grey, tinted with the colour where the slot attended most."""
    white = Image.new("RGB", image.size, "white")
    grey = Image.blend(image.convert("L").convert("RGB"), white, 0.5)
    tinted = Image.blend(image, Image.new("RGB", image.size, colour), 0.25)
    return Image.composite(tinted, grey, attention_mask(slot_map, image.size))


def transparent_overlay(
    preprocess: Preprocess, slot_map: SlotMap, size: tuple[int, int], colour: tuple[int, int, int]
) -> Image.Image:
    """A layer to lay over an image of this size: opaque where the slot attended most."""
    left, top, right, bottom = preprocess.visible_box(size)
    mask = attention_mask(slot_map, (right - left, bottom - top))
    alpha = Image.new("L", size, 0)  # transparent outside of what the network sees
    alpha.paste(mask.point(lambda level: level * 0.75), (left, top))
    layer = Image.new("RGB", size, colour)
    layer.putalpha(alpha)
    return layer


def attention_mask(slot_map: SlotMap, size: tuple[int, int]) -> Image.Image:
    """A slot map as grey levels, scaled from its minimum to its maximum."""
    low, high = float(slot_map.min()), float(slot_map.max())
    if low == high:  # the whole image
        return Image.new("L", size, 255)
    levels = ((slot_map - low) / max(high - low, 1e-6) * 255).numpy().astype(np.uint8)
    return Image.fromarray(levels).resize(size, Image.Resampling.BICUBIC)


def visible_part(preprocess: Preprocess, image: Image.Image, side: int) -> Image.Image:
    """The part of an image that the network sees, its longer side resized to `side`."""
    left, top, right, bottom = box = preprocess.visible_box(image.size)
    size = scale_to_side(right - left, bottom - top, side)
    return image.resize(size, Image.Resampling.LANCZOS, box=box)


def scale_to_side(width: int, height: int, side: int) -> tuple[int, int]:
    """A size with the same proportions, whose longer side is `side`.

    >>> scale_to_side(4000, 1000, side=256)
    (256, 64)
    """
    scale = side / max(width, height)
    return max(1, round(width * scale)), max(1, round(height * scale))
