"""5x5 depthwise convolution with a fast weight gradient in bfloat16 on CPUs.

torch's own weight gradient is up to 12 times slower than necessary at this kernel size, but fast at
3x3. The gradient at a kernel position is the product of the output gradient with the input shifted
by that position, so the 3x3 gradients of four shifted inputs are the four overlapping corners of
the 5x5 gradient. The numbers are identical.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.nn.grad import conv2d_input, conv2d_weight

from diverset.runtime.autocast import autocast_dtype

CORNERS = [(row, column) for row in (0, 2) for column in (0, 2)]


def conv2d(conv: nn.Conv2d, x: Tensor) -> Tensor:
    """conv(x), with the fast weight gradient where it applies."""
    if not _applies(conv, x):
        return conv(x)  # type: ignore[no-any-return]
    return _DepthwiseConv5x5.apply(  # type: ignore[no-untyped-call,no-any-return]
        x.bfloat16(), conv.weight.bfloat16()
    )


def _applies(conv: nn.Conv2d, x: Tensor) -> bool:
    return (
        conv.kernel_size == (5, 5)
        and conv.stride == (1, 1)
        and conv.padding == (2, 2)
        and conv.dilation == (1, 1)
        and conv.groups == conv.in_channels == conv.out_channels
        and conv.bias is None
        and conv.weight.requires_grad
        and torch.is_grad_enabled()
        and x.device.type == "cpu"
        and autocast_dtype(x) == torch.bfloat16
        and not torch.compiler.is_compiling()
    )


class _DepthwiseConv5x5(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor) -> Tensor:
        ctx.save_for_backward(x, weight)
        return F.conv2d(x, weight, padding=2, groups=len(weight))

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, Tensor]:
        (grad,) = grads
        x, weight = ctx.saved_tensors
        grad_x = None
        if ctx.needs_input_grad[0]:
            grad_x = conv2d_input(  # type: ignore[no-untyped-call]
                x.shape, weight, grad, padding=2, groups=len(weight)
            )
        return grad_x, weight_gradient(x, grad)


def weight_gradient(x: Tensor, grad: Tensor) -> Tensor:
    """Gradient (channels, 1, 5, 5) of the weight from input and output gradient of one shape."""
    channels, height, width = x.shape[1:]
    padded = F.pad(x, (2, 2, 2, 2))
    result = x.new_empty(channels, 1, 5, 5)
    for row, column in CORNERS:
        shifted = padded[:, :, row : row + height + 2, column : column + width + 2]
        corner = conv2d_weight(  # type: ignore[no-untyped-call]
            shifted, (channels, 1, 3, 3), grad, groups=channels
        )
        result[:, :, row : row + 3, column : column + 3] = corner
    return result
