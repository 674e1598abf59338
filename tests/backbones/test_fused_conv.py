from concurrent.futures import ThreadPoolExecutor
from copy import deepcopy

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from diverset.backbones.efficientnet import ConvNorm, InvertedBottleneck
from diverset.backbones.fused_conv import can_fuse, convolve

TOLERANCE = {torch.float32: 1e-5, torch.bfloat16: 3e-2}


def frozen(groups: int = 1) -> nn.Conv2d:
    torch.manual_seed(0)
    return nn.Conv2d(8, 8, 3, padding=1, groups=groups).requires_grad_(False)


def needs_kernels(precision: torch.dtype) -> None:
    with torch.autocast("cpu", torch.bfloat16, enabled=precision == torch.bfloat16):
        if not can_fuse(frozen(), torch.zeros(1, 8, 4, 4)):
            pytest.skip(f"this CPU has no fused kernels for {precision}")


@pytest.mark.parametrize("precision", TOLERANCE)
@pytest.mark.parametrize("groups", [1, 8])
@pytest.mark.parametrize("relu6", [False, True])
@pytest.mark.parametrize("adds", [False, True])
def test_fused_convolution_equals_the_separate_steps(precision, groups, relu6, adds):
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


def test_fused_convolution_is_not_used_if_gradients_are_needed():
    conv = frozen()
    assert not can_fuse(conv, torch.zeros(1, 8, 4, 4, requires_grad=True))
    assert not can_fuse(conv, torch.zeros(1, 8, 4, 4, dtype=torch.float64))
    assert not can_fuse(conv.requires_grad_(True), torch.zeros(1, 8, 4, 4))


@pytest.mark.parametrize("size", [12, 13])
def test_fused_block_equals_the_original_for_both_strides(size):
    needs_kernels(torch.float32)
    for stride in (1, 2):
        block = InvertedBottleneck(8, 8, 5, stride, 6).eval().requires_grad_(False)
        for part in block.modules():
            if isinstance(part, nn.BatchNorm2d):
                nn.init.uniform_(part.running_mean, -0.1, 0.1)
        for other in (size, size + 1):  # "same" padding is equal on both sides, or not
            pixels = torch.randn(2, 8, size, other)
            expected, folded = block(pixels), deepcopy(block)
            for part in folded.modules():
                if isinstance(part, ConvNorm):
                    part.fold()
            torch.testing.assert_close(folded(pixels), expected, rtol=1e-4, atol=1e-5)


def test_changed_weights_are_packed_again():
    needs_kernels(torch.float32)
    conv, x = frozen(), torch.randn(1, 8, 5, 5)
    first = convolve(conv, x, (1, 1))
    conv.weight.mul_(2)
    conv.bias.mul_(2)
    torch.testing.assert_close(convolve(conv, x, (1, 1)), 2 * first)
    torch.testing.assert_close(convolve(deepcopy(conv), x, (1, 1)), 2 * first)


@pytest.mark.parametrize("precision", TOLERANCE)
def test_changed_bias_is_used_even_if_the_weight_is_the_same(precision):
    needs_kernels(precision)
    conv, x = frozen(), torch.zeros(1, 8, 5, 5)
    with torch.autocast("cpu", torch.bfloat16, enabled=precision == torch.bfloat16):
        convolve(conv, x, (1, 1))
        conv.bias.fill_(3.0)
        assert (convolve(conv, x, (1, 1)) == 3).all()


def test_threads_share_packed_weights():
    needs_kernels(torch.float32)
    convs, x = [frozen() for _ in range(8)], torch.randn(1, 8, 5, 5)
    with ThreadPoolExecutor(4) as pool:
        results = list(pool.map(lambda conv: convolve(conv, x, (1, 1)), convs * 8))
    assert all(torch.equal(result, results[0]) for result in results)
