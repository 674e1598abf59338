"""Sine position codes for words in a caption (1-D) and cells of a grid (2-D).

Positions go from just above 0 to 2 pi over the sample's own length: a code is a relative position,
and padding does not change it. Even channels are sines, odd ones cosines.
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
    counts = mask.to(dtype).cumsum(dim=1)
    lengths = mask.sum(dim=1, keepdim=True).to(dtype)
    angles = counts / (lengths + EPSILON) * 2 * math.pi
    channel = torch.arange(width, device=mask.device)
    pair = (channel // 2 * 2).to(dtype)  # a sine and a cosine share one frequency
    scaled = angles[..., None] / TEMPERATURE ** (pair / width)
    return torch.where(channel % 2 == 0, scaled.sin(), scaled.cos())


def sine_positions_2d(
    height: int,
    width: int,
    channels: int,
    dtype: torch.dtype = torch.float32,
    device: torch.device | str | None = None,
) -> Float[Tensor, "cells channels"]:
    """Codes for a grid, cells in row-major order: half of the channels for y, then half for x."""
    if channels % 2:
        raise OptionError(f"{channels} channels cannot be halved for y and x; use an even width")
    y, x = (
        sine_positions(torch.ones(1, side, dtype=torch.bool, device=device), channels // 2, dtype)
        for side in (height, width)
    )
    rows, columns = y[0, :, None].expand(-1, width, -1), x.expand(height, -1, -1)
    return torch.cat([rows, columns], dim=-1).reshape(height * width, channels)
