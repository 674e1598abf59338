"""A small CNN without pretrained weights, for images of about 100 pixels.

It trains from scratch on the generated scenes in minutes. Photographs need a pretrained backbone.
"""

from __future__ import annotations

from torch import Tensor, nn

from diverset.backbones.base import ImageBackbone
from diverset.data.preprocess import Preprocess

LAYERS = ((32, 2), (64, 2), (128, 1), (128, 2), (256, 1))
"""Channels and stride of each convolution; the last map has 1/8 of the pixels per side."""


class SmallCnn(ImageBackbone):
    """Five 3x3 convolutions with batch norm: (batch, 3, 96, 96) to (batch, 256, 12, 12).

    Args:
        size: input pixels; 96 gives a 12x12 map, 128 a 16x16 map.
    """

    def __init__(self, size: int = 96) -> None:
        super().__init__()
        self.name = "small_cnn"
        half = (0.5, 0.5, 0.5)
        self.preprocess = Preprocess(size, crop="squash", mean=half, std=half)
        self.layers = nn.ModuleList()
        channels = 3
        for width, stride in LAYERS:
            self.layers.append(
                nn.Sequential(
                    nn.Conv2d(channels, width, 3, stride, padding=1, bias=False),
                    nn.BatchNorm2d(width),
                    nn.ReLU(inplace=True),
                )
            )
            channels = width
        self.width = channels

    def feature_map(self, pixels: Tensor) -> Tensor:
        for layer in self.layers:
            pixels = layer(pixels)
        return pixels

    def stages(self) -> list[nn.Module]:
        return list(self.layers)
