"""Sine position codes for words in a row (1-D) and cells of a grid (2-D).

Positions run from just above 0 to 2 pi over the sample's own length, so a code says where in its
sentence or picture an input stands, and padding does not change it. Even channels are sines, odd
ones cosines.
"""

import math

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from diverset.errors import OptionError

TEMPERATURE = 10000.0
EPSILON = 1e-6


def sine_positions(
    mask: Bool[Tensor, "batch inputs"], width: int, dtype: torch.dtype = torch.float32
) -> Float[Tensor, "batch inputs width"]:
    """Codes for sequences: input n of L gets the angle 2 pi n / L, n counted from 1.

    >>> sine_positions(torch.tensor([[True, True, False]]), width=2)[0, 1].round(decimals=3).abs()
    tensor([0., 1.])
    """
    places = mask.to(dtype).cumsum(dim=1)
    lengths = mask.sum(dim=1, keepdim=True).to(dtype)
    return _codes(places / (lengths + EPSILON) * 2 * math.pi, width)


def sine_positions_2d(
    height: int,
    width: int,
    channels: int,
    dtype: torch.dtype = torch.float32,
    device: torch.device | str | None = None,
) -> Float[Tensor, "cells channels"]:
    """Codes for a grid, cells in row-major order: the first half of the channels for y, then x."""
    if channels % 2:
        raise OptionError(f"{channels} channels cannot be halved for y and x; use an even width")
    y = torch.arange(1, height + 1, dtype=dtype, device=device) / (height + EPSILON) * 2 * math.pi
    x = torch.arange(1, width + 1, dtype=dtype, device=device) / (width + EPSILON) * 2 * math.pi
    rows = _codes(y, channels // 2)[:, None].expand(height, width, -1)
    columns = _codes(x, channels // 2)[None, :].expand(height, width, -1)
    return torch.cat([rows, columns], dim=-1).reshape(height * width, channels)


def _codes(angles: Float[Tensor, "*places"], width: int) -> Float[Tensor, "*places width"]:
    channel = torch.arange(width, device=angles.device)
    pair = (channel // 2 * 2).to(angles.dtype)  # a sine and a cosine share one frequency
    scaled = angles[..., None] / TEMPERATURE ** (pair / width)
    return torch.where(channel % 2 == 0, scaled.sin(), scaled.cos())
