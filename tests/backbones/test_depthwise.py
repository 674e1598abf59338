"""The fast weight gradient of a 5x5 depthwise convolution against torch's own."""

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from diverset.backbones import depthwise
from diverset.backbones.depthwise import conv2d, weight_gradient
from diverset.backbones.efficientnet import InvertedBottleneck

SIZES = [(9, 9), (7, 12), (5, 5), (3, 4), (1, 1), (1, 6)]


def make_conv(channels: int = 8, **options) -> nn.Conv2d:
    torch.manual_seed(0)
    options = {"padding": 2, "groups": channels, "bias": False} | options
    return nn.Conv2d(channels, channels, options.pop("kernel", 5), **options)


@pytest.mark.parametrize("size", SIZES)
def test_weight_gradient_agrees_with_torch(size):
    x = torch.randn(3, 8, *size, dtype=torch.float64)
    grad = torch.randn(3, 8, *size, dtype=torch.float64)
    weight = torch.randn(8, 1, 5, 5, dtype=torch.float64, requires_grad=True)
    F.conv2d(x, weight, padding=2, groups=8).backward(grad)
    torch.testing.assert_close(weight_gradient(x, grad), weight.grad, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("layout", [torch.contiguous_format, torch.channels_last])
def test_training_step_in_bfloat16_agrees_with_torch(size, layout):
    conv = make_conv().to(memory_format=layout)
    x = torch.randn(4, 8, *size).to(memory_format=layout).requires_grad_(True)
    results = []
    for forward in (conv, lambda inputs: conv2d(conv, inputs)):
        conv.weight.grad = x.grad = None
        with torch.autocast("cpu", torch.bfloat16):
            y = forward(x)
        y.backward(torch.linspace(-1, 1, y.numel()).view(y.shape).bfloat16())
        results.append((y, x.grad, conv.weight.grad))
    for expected, result in zip(*results, strict=True):
        assert result.dtype == expected.dtype
        torch.testing.assert_close(result, expected, rtol=1e-2, atol=1e-2)


def test_frozen_input_needs_no_input_gradient():
    conv, x = make_conv(), torch.randn(2, 8, 6, 6)
    with torch.autocast("cpu", torch.bfloat16):
        conv2d(conv, x).sum().backward()
    assert conv.weight.grad is not None and x.grad is None


@pytest.mark.parametrize(
    ("conv", "dtype"),
    [
        (make_conv(), torch.float32),
        (make_conv(kernel=3, padding=1), torch.bfloat16),
        (make_conv(stride=2), torch.bfloat16),
        (make_conv(groups=1), torch.bfloat16),
        (make_conv(bias=True), torch.bfloat16),
        (make_conv().requires_grad_(False), torch.bfloat16),
    ],
)
def test_other_convolutions_are_left_to_torch(conv, dtype, monkeypatch):
    monkeypatch.setattr(depthwise, "_DepthwiseConv5x5", None)
    x = torch.randn(2, 8, 6, 6)
    with torch.autocast("cpu", torch.bfloat16, enabled=dtype == torch.bfloat16):
        assert torch.equal(conv2d(conv, x), conv(x))


def test_inference_is_left_to_torch(monkeypatch):
    monkeypatch.setattr(depthwise, "_DepthwiseConv5x5", None)
    conv, x = make_conv(), torch.randn(2, 8, 6, 6)
    with torch.no_grad(), torch.autocast("cpu", torch.bfloat16):
        assert torch.equal(conv2d(conv, x), conv(x))


def test_efficientnet_blocks_use_the_fast_gradient(monkeypatch):
    sizes = []
    original = depthwise.weight_gradient
    monkeypatch.setattr(
        depthwise, "weight_gradient", lambda x, grad: (sizes.append(x.shape), original(x, grad))[1]
    )
    block = InvertedBottleneck(8, 8, 5, 1, 6)
    with torch.autocast("cpu", torch.bfloat16):
        block(torch.randn(2, 8, 9, 9)).float().sum().backward()
    assert sizes == [(2, 48, 9, 9)]
