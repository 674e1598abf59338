"""Initial values of learned slots."""

import torch
from torch import Tensor


def random_slots(size: int, dim: int) -> Tensor:
    """Slots drawn from a standard normal distribution; without values on the "meta" device.

    torch imports its compiler, which takes a second, to draw numbers on that device.
    """
    slots = torch.empty(size, dim)
    return slots if slots.is_meta else slots.normal_()
