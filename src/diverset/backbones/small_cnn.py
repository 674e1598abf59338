"""A small network without pretrained weights, for pictures of about 100 pixels.

Made for the generated dataset, where it trains from scratch on two cores in minutes. Photographs
need one of the pretrained backbones.
"""

from __future__ import annotations

from jaxtyping import Float
from torch import Tensor, nn

from diverset.backbones.base import PictureBackbone, check_pixels
from diverset.data.preprocess import Preprocess

LAYERS = ((32, 2), (64, 2), (128, 1), (128, 2), (256, 1))
"""Channels and stride of each convolution; the last map has an eighth of the pixels a side."""


class SmallCnn(PictureBackbone):
    """Five 3x3 convolutions with batch norm: (batch, 3, 96, 96) to (batch, 256, 12, 12).

    Args:
        size: input pixels; 96 gives a map of 12x12, 128 one of 16x16.
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

    def forward(
        self, pixels: Float[Tensor, "batch 3 height width"]
    ) -> Float[Tensor, "batch 256 rows columns"]:
        check_pixels(self.name, pixels)
        for layer in self.layers:
            pixels = layer(pixels)
        return pixels

    def stages(self) -> list[nn.Module]:
        return list(self.layers)
