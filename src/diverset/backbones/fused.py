"""A convolution, its activation and a residual sum in one pass over memory.

oneDNN has such kernels, and torch calls them when it compiles a model; here they are called
without a compiler. They are not differentiable and run on CPUs only: `fits` says where they do.
Networks decide what they join.
"""

from __future__ import annotations

from weakref import WeakKeyDictionary

import torch
from torch import Tensor, nn
from torch.nn import functional

# Not on the modules themselves: packed weights cannot be copied as these are.
_PACKED: WeakKeyDictionary[nn.Conv2d, tuple[object, Tensor, Tensor | None]] = WeakKeyDictionary()


def fits(conv: nn.Conv2d, x: Tensor) -> bool:
    """Whether `convolve` can take the place of separate steps for this input, here and now."""
    if x.requires_grad or conv.weight.requires_grad or torch.compiler.is_compiling():
        return False
    if x.device.type != "cpu":
        return False
    if not torch.backends.mkldnn.is_available():  # type: ignore[no-untyped-call]
        return False
    dtype = _dtype(x)
    if dtype == torch.bfloat16:
        return bool(torch.ops.mkldnn._is_mkldnn_bf16_supported())
    return dtype == torch.float32


def convolve(
    conv: nn.Conv2d,
    x: Tensor,
    same: tuple[int, int],
    relu6: bool = False,
    residual: Tensor | None = None,
) -> Tensor:
    """conv(x), then the sum with `residual`, then ReLU6, under autocast as outside of it.

    Args:
        conv: its own padding does not count.
        x: what it reads.
        same: zeros before and after each row and column; after it as many, or one more.
        relu6: whether it ends with ReLU6.
        residual: what is added before.
    """
    dtype = _dtype(x)
    weight, bias = _packed(conv, same, dtype, tuple(x.shape))
    given = (weight, bias, (same[1],) * 2, conv.stride, conv.dilation, conv.groups)
    pointwise = torch.ops.mkldnn._convolution_pointwise
    found: Tensor
    if residual is None:
        name, bounds = ("hardtanh", [0.0, 6.0]) if relu6 else ("none", [])
        found = pointwise(x.to(dtype), *given, name, bounds, "")
        return found
    found = pointwise.binary(x.to(dtype), residual.to(dtype), *given, "add", 1.0, None, [], None)
    # There is no kernel for a sum with ReLU6 behind it.
    return functional.relu6(found, inplace=True) if relu6 else found


def _packed(
    conv: nn.Conv2d, same: tuple[int, int], dtype: torch.dtype, shape: tuple[int, ...]
) -> tuple[Tensor, Tensor | None]:
    """Weights in the order that the kernel reads them in, made once: they are frozen."""
    before, after = same
    weight, bias = conv.weight, conv.bias
    key = (dtype, same, weight.data_ptr(), weight._version)
    kept = _PACKED.get(conv)
    if kept is None or kept[0] != key:
        if after > before:  # zeros in front of the kernel cost less than a padded copy of the input
            weight = functional.pad(weight, (1, 0, 1, 0))
        where = ((after, after), conv.stride, conv.dilation, conv.groups, shape)
        packed = torch.ops.mkldnn._reorder_convolution_weight(weight.to(dtype), *where)
        kept = _PACKED[conv] = (key, packed, None if bias is None else bias.to(dtype))
    return kept[1], kept[2]


def _dtype(x: Tensor) -> torch.dtype:
    """In which a convolution would compute: custom operators do not follow autocast themselves."""
    if torch.is_autocast_enabled(x.device.type):
        return torch.get_autocast_dtype(x.device.type)
    return x.dtype
