"""Every private operator of torch that diverset uses, each behind a check.

They may change or vanish with any torch release. Callers ask `has_...` first and compute the same
result with public operators where the answer is no.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

import torch
from torch import Tensor

INT8_MAX = 127


def cpu_has_bfloat16() -> bool:
    """Whether this CPU multiplies bfloat16 natively; otherwise bfloat16 is slower than float32."""
    names = ("_is_avx512_bf16_supported", "_is_amx_tile_supported")
    return any(getattr(torch.cpu, name, bool)() for name in names)


def int8_matmul(a: Tensor, b: Tensor, out: Tensor | None = None) -> Tensor:
    """a @ b.T of int8 matrices (rows, dim) and (items, dim), in int32."""
    if out is None:
        out = torch.empty(len(a), len(b), dtype=torch.int32)
    product: Tensor = torch._int_mm(a, b.T, out=out)
    return product


@cache
def has_int8_matmul(matmul: Callable[..., Tensor] = int8_matmul) -> bool:
    """Whether `int8_matmul` exists here and is exact: some CPUs saturate on large values."""
    generator = torch.Generator().manual_seed(0)
    for rows, items in ((1, 1), (4, 33), (128, 257)):
        for low, high in ((-INT8_MAX, INT8_MAX + 1), (INT8_MAX, INT8_MAX + 1), (-INT8_MAX, -126)):
            shape = (rows + items, 64)
            values = torch.randint(low, high, shape, dtype=torch.int8, generator=generator)
            a, b = values[:rows], values[rows:]
            try:
                product = matmul(a, b)
            except (RuntimeError, AttributeError):
                return False
            if not torch.equal(product.double(), a.double() @ b.double().T):
                return False
    return True


@cache
def has_fused_conv(dtype: torch.dtype) -> bool:
    """Whether oneDNN's convolution with a fused activation or sum exists for this type."""
    if not torch.backends.mkldnn.is_available():  # type: ignore[no-untyped-call]
        return False
    names = ("_convolution_pointwise", "_reorder_convolution_weight", "_is_mkldnn_bf16_supported")
    if not all(hasattr(torch.ops.mkldnn, name) for name in names):
        return False
    if dtype == torch.bfloat16:
        return bool(torch.ops.mkldnn._is_mkldnn_bf16_supported())
    return dtype == torch.float32


ConvOptions = tuple[Sequence[int], Sequence[int], Sequence[int], int]
"""Padding, stride, dilation and groups of a convolution."""


def pack_conv_weight(weight: Tensor, options: ConvOptions, input_shape: Sequence[int]) -> Tensor:
    """A convolution weight in the memory layout that `fused_conv` reads."""
    packed: Tensor = torch.ops.mkldnn._reorder_convolution_weight(weight, *options, input_shape)
    return packed


def fused_conv(
    x: Tensor, weight: Tensor, bias: Tensor | None, options: ConvOptions,
    relu6: bool = False, residual: Tensor | None = None,
) -> Tensor:  # fmt: skip
    """Convolution with ReLU6 or a residual sum (not both) in one pass over memory."""
    conv = (weight, bias, *options)
    operator = torch.ops.mkldnn._convolution_pointwise
    y: Tensor
    if residual is None:
        activation, bounds = ("hardtanh", [0.0, 6.0]) if relu6 else ("none", [])
        y = operator(x, *conv, activation, bounds, "")
    else:
        y = operator.binary(x, residual, *conv, "add", 1.0, None, [], None)
    return y


def has_onednn_linear(inputs: Tensor, weight: Tensor) -> bool:
    """Whether `onednn_linear` exists here for these tensors."""
    return (
        inputs.dtype == weight.dtype
        and inputs.device.type == weight.device.type == "cpu"
        and _has_linear(inputs.dtype)
    )


@cache
def _has_linear(dtype: torch.dtype = torch.float32) -> bool:
    available = torch.backends.mkldnn.is_available()  # type: ignore[no-untyped-call]
    if not available or not hasattr(torch.ops.mkldnn, "_linear_pointwise"):
        return False
    return dtype == torch.float32 or (dtype == torch.bfloat16 and cpu_has_bfloat16())


def onednn_linear(inputs: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """F.linear by oneDNN, without a gradient. torch's own calls MKL, which does not use AVX-512 on
    AMD CPUs."""
    # Strided operands would run a reference implementation, hundreds of times slower.
    operands = inputs.contiguous(), weight.contiguous(), bias
    y: Tensor = torch.ops.mkldnn._linear_pointwise(*operands, "none", [], "")
    return y


def onednn_linear_flops() -> dict[Any, Callable[..., int]]:
    """The FLOPs of `onednn_linear` for torch's counter, which has no entry for it."""

    def flops(inputs: Sequence[int], weight: Sequence[int], *_: Any, **__: Any) -> int:
        return 2 * math.prod(inputs) * weight[0]

    return {torch.ops.mkldnn._linear_pointwise: flops} if _has_linear() else {}


def gelu_gradient(upstream: Tensor, x: Tensor) -> Tensor:
    """The gradient of F.gelu(x) with respect to x, as in autograd; overwrites `upstream`."""
    gradient: Tensor = torch.ops.aten.gelu_backward.grad_input(upstream, x, grad_input=upstream)
    return gradient
