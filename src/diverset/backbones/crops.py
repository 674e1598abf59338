"""Views of an image for a set that needs no training: the whole image and overlapping squares."""

from __future__ import annotations

import math

import torch
from jaxtyping import Float
from torch import Tensor

from diverset.errors import OptionError

OVERLAP = 1.2  # sides of neighbouring squares over their distance, in a square image
CELLS = 96  # rows and columns of the map of a box
Box = tuple[int, int, int, int]


def grid_side(crops: int) -> int:
    """Rows and columns of squares in a set of `crops` views; 0 for the whole image alone.

    >>> [grid_side(crops) for crops in (1, 5, 10)]
    [0, 2, 3]
    """
    side = math.isqrt(crops - 1) if crops >= 1 else -1
    if side < 0 or side == 1 or side * side != crops - 1:
        raise OptionError(
            f"crops is {crops}; give 1 (the whole image), 5 (and 2 x 2 squares), 10 (and 3 x 3) or "
            "17 (and 4 x 4)"
        )
    return side


def square_boxes(size: tuple[int, int], crops: int) -> list[Box]:
    """Left, top, right and bottom of the squares: a grid that reaches all edges of the image.

    Squares, because a network sees squares: nothing is distorted or cut off. They overlap along
    the shorter side of the image, and at least touch along the longer one unless it is very long.

    >>> square_boxes((300, 200), crops=5)
    [(0, 0, 150, 150), (150, 0, 300, 150), (0, 50, 150, 200), (150, 50, 300, 200)]
    """
    count = grid_side(crops)
    if not count:
        return []
    shorter, longer = min(size), max(size)
    side = max(1, min(shorter, round(max(OVERLAP * shorter, longer) / count)))
    lefts, tops = (
        [round(step * (length - side) / (count - 1)) for step in range(count)] for length in size
    )
    return [(left, top, left + side, top + side) for top in tops for left in lefts]


def box_map(box: Box, size: tuple[int, int]) -> Float[Tensor, "cells cells"]:
    """A map over an image of this size: 1 in the box, 0 outside.

    >>> float(box_map((0, 0, 50, 100), (100, 100)).mean())
    0.5
    """
    width, height = size
    left, right = (round(CELLS * edge / width) for edge in (box[0], box[2]))
    top, bottom = (round(CELLS * edge / height) for edge in (box[1], box[3]))
    cells = torch.zeros(CELLS, CELLS)
    cells[top : max(bottom, top + 1), left : max(right, left + 1)] = 1.0
    return cells
