from copy import deepcopy

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from diverset.backbones.efficientnet import ConvNorm, InvertedBottleneck
from diverset.backbones.fused import convolve, fits

TOLERANCE = {torch.float32: 1e-5, torch.bfloat16: 3e-2}


def frozen(groups: int = 1) -> nn.Conv2d:
    torch.manual_seed(0)
    return nn.Conv2d(8, 8, 3, padding=1, groups=groups).requires_grad_(False)


def needs_kernels(precision: torch.dtype) -> None:
    with torch.autocast("cpu", torch.bfloat16, enabled=precision == torch.bfloat16):
        if not fits(frozen(), torch.zeros(1, 8, 4, 4)):
            pytest.skip(f"this processor has no joined kernels for {precision}")


@pytest.mark.parametrize("precision", TOLERANCE)
@pytest.mark.parametrize("groups", [1, 8])
@pytest.mark.parametrize("relu6", [False, True])
@pytest.mark.parametrize("adds", [False, True])
def test_one_pass_is_what_the_steps_give(precision, groups, relu6, adds):
    needs_kernels(precision)
    conv, x, other = frozen(groups), 4 * torch.randn(2, 8, 9, 7), 4 * torch.randn(2, 8, 9, 7)
    expected = conv(x) + other if adds else conv(x)
    expected = F.relu6(expected) if relu6 else expected
    with torch.autocast("cpu", torch.bfloat16, enabled=precision == torch.bfloat16):
        found = convolve(conv, x, (1, 1), relu6, other if adds else None)
    assert found.dtype == precision
    torch.testing.assert_close(
        found.float(), expected, rtol=TOLERANCE[precision], atol=4 * TOLERANCE[precision]
    )


def test_what_is_trained_or_asked_for_gradients_goes_step_by_step():
    conv = frozen()
    assert not fits(conv, torch.zeros(1, 8, 4, 4, requires_grad=True))
    assert not fits(conv, torch.zeros(1, 8, 4, 4, dtype=torch.float64))
    assert not fits(conv.requires_grad_(True), torch.zeros(1, 8, 4, 4))


@pytest.mark.parametrize("size", [12, 13])
def test_a_folded_block_of_either_stride(size):
    needs_kernels(torch.float32)
    for stride in (1, 2):
        block = InvertedBottleneck(8, 8, 5, stride, 6).eval().requires_grad_(False)
        for part in block.modules():
            if isinstance(part, nn.BatchNorm2d):
                nn.init.uniform_(part.running_mean, -0.1, 0.1)
        for other in (size, size + 1):  # "same" pads these sides alike, or not
            pixels = torch.randn(2, 8, size, other)
            expected, folded = block(pixels), deepcopy(block)
            for part in folded.modules():
                if isinstance(part, ConvNorm):
                    part.fold()
            torch.testing.assert_close(folded(pixels), expected, rtol=1e-4, atol=1e-5)


def test_weights_that_change_are_packed_anew():
    needs_kernels(torch.float32)
    conv, x = frozen(), torch.randn(1, 8, 5, 5)
    first = convolve(conv, x, (1, 1))
    conv.weight.mul_(2)
    conv.bias.mul_(2)
    torch.testing.assert_close(convolve(conv, x, (1, 1)), 2 * first)
    torch.testing.assert_close(convolve(deepcopy(conv), x, (1, 1)), 2 * first)
