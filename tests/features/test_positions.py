import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from diverset.errors import OptionError
from diverset.features import sine_positions, sine_positions_2d


def naive_code(position, length, channel, width):
    angle = position / (length + 1e-6) * 2 * math.pi / 10000 ** (2 * (channel // 2) / width)
    return math.sin(angle) if channel % 2 == 0 else math.cos(angle)


@given(st.integers(1, 9), st.integers(0, 4), st.integers(1, 12))
def test_1d_positions_are_their_formula_for_any_padding(length, padding, width):
    mask = torch.tensor([[True] * length + [False] * padding])
    codes = sine_positions(mask, width, torch.float64)[0, :length]
    expected = torch.tensor(
        [[naive_code(n + 1, length, c, width) for c in range(width)] for n in range(length)],
        dtype=torch.float64,
    )
    torch.testing.assert_close(codes, expected)


@given(st.integers(1, 6), st.integers(1, 6), st.integers(1, 6).map(lambda half: 2 * half))
def test_2d_positions_are_y_then_x(height, width, channels):
    codes = sine_positions_2d(height, width, channels, torch.float64).view(height, width, channels)
    half = channels // 2
    for y in range(height):
        for x in range(width):
            expected = [naive_code(y + 1, height, c, half) for c in range(half)]
            expected += [naive_code(x + 1, width, c, half) for c in range(half)]
            torch.testing.assert_close(codes[y, x], torch.tensor(expected, dtype=torch.float64))


def test_2d_positions_need_an_even_width():
    with pytest.raises(OptionError, match="7 channels"):
        sine_positions_2d(2, 2, 7)
