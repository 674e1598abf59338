"""Numeric precision of networks: one vocabulary and one autocast context."""

import torch

from diverset.config import PRECISIONS
from diverset.errors import check_choice
from diverset.runtime.torch_private import cpu_has_bfloat16


def autocast(device: torch.device | str, precision: str) -> torch.autocast:
    """Run matrix products and convolutions in this precision; "float32" changes nothing."""
    enabled = precision != "float32"
    dtype = precision_dtype(precision) if enabled else torch.bfloat16
    return torch.autocast(torch.device(device).type, dtype, enabled=enabled)


def precision_dtype(precision: str) -> torch.dtype:
    """The type of a name in `PRECISIONS`."""
    check_choice("precision", precision, PRECISIONS)
    dtype: torch.dtype = getattr(torch, precision)
    return dtype


def autocast_dtype(x: torch.Tensor) -> torch.dtype:
    """The type in which a product with `x` is computed here: autocast's, or that of `x`."""
    if torch.is_autocast_enabled(x.device.type):
        return torch.get_autocast_dtype(x.device.type)
    return x.dtype


def fastest_precision() -> str:
    """ "bfloat16" where the CPU has instructions for it, otherwise "float32"."""
    return "bfloat16" if cpu_has_bfloat16() else "float32"
