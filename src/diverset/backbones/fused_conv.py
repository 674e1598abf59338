"""A convolution with its activation or residual sum in one pass over memory.

The kernels are not differentiable and run on CPUs only; `can_fuse` says where they apply.
"""

from __future__ import annotations

from threading import Lock
from weakref import WeakKeyDictionary

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from diverset.runtime.autocast import autocast_dtype
from diverset.runtime.torch_private import ConvOptions, fused_conv, has_fused_conv, pack_conv_weight

# Not stored on the modules: packed weights cannot be deep-copied.
_packed: WeakKeyDictionary[nn.Conv2d, tuple[object, Tensor, Tensor | None]] = WeakKeyDictionary()
_packed_lock = Lock()


def can_fuse(conv: nn.Conv2d, x: Tensor) -> bool:
    """Whether `convolve` can replace the separate steps for this input."""
    if x.requires_grad or conv.weight.requires_grad or torch.compiler.is_compiling():
        return False
    return x.device.type == "cpu" and has_fused_conv(autocast_dtype(x))


def convolve(
    conv: nn.Conv2d, x: Tensor, padding: tuple[int, int], relu6: bool = False,
    residual: Tensor | None = None,
) -> Tensor:  # fmt: skip
    """conv(x), plus `residual`, then ReLU6; follows autocast.

    `padding`, the zeros before and after each row and column, replaces that of `conv`; the second
    number is equal or one larger.
    """
    dtype = autocast_dtype(x)
    weight, bias = _pack(conv, padding, dtype, tuple(x.shape))
    if residual is not None:
        residual = residual.to(dtype)
    y = fused_conv(x.to(dtype), weight, bias, _options(conv, padding), relu6, residual)
    # There is no kernel for a sum followed by ReLU6.
    return F.relu6(y, inplace=True) if relu6 and residual is not None else y


def _pack(
    conv: nn.Conv2d, padding: tuple[int, int], dtype: torch.dtype, input_shape: tuple[int, ...]
) -> tuple[Tensor, Tensor | None]:
    """Weight in the kernel's memory layout and bias, computed once per state of both."""
    before, after = padding
    weight, bias = conv.weight, conv.bias
    key = (dtype, padding, _version(weight), _version(bias))
    with _packed_lock:
        entry = _packed.get(conv)
        if entry is None or entry[0] != key:
            if after > before:  # zeros in the kernel cost less than a padded copy of the input
                weight = F.pad(weight, (1, 0, 1, 0))
            packed = pack_conv_weight(weight.to(dtype), _options(conv, padding), input_shape)
            entry = _packed[conv] = (key, packed, None if bias is None else bias.to(dtype))
    return entry[1], entry[2]


def _options(conv: nn.Conv2d, padding: tuple[int, int]) -> ConvOptions:
    return (padding[1], padding[1]), conv.stride, conv.dilation, conv.groups


def _version(tensor: Tensor | None) -> tuple[int, int] | None:
    return None if tensor is None else (tensor.data_ptr(), tensor._version)
