"""From an opened picture to the pixels a network wants: resize, crop, scale, normalise.

`Preprocess` is deterministic and part of a backbone's fingerprint; `RandomResizedCrop` is the
training augmentation. Neither opens files nor knows networks. Resizing is Pillow's.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import torch
from jaxtyping import Float, UInt8
from torch import Tensor

from diverset.errors import OptionError, check_choice, import_extra

if TYPE_CHECKING:
    from PIL.Image import Image

CROPS = ("center", "squash")
INTERPOLATIONS = ("nearest", "bilinear", "bicubic", "lanczos")
IMAGENET_MEAN = (0.485, 0.456, 0.406)
IMAGENET_STD = (0.229, 0.224, 0.225)
TRIES = 10
"""How often a random crop is drawn before the largest central one is taken."""


@dataclass(frozen=True)
class Preprocess:
    """How a picture becomes (3, size, size) numbers; the same picture always becomes the same.

    Attributes:
        size: height and width of the result.
        crop: "center" resizes the shorter side and cuts the middle out, "squash" resizes both
            sides to `size` and loses nothing but proportions.
        resize: with "center", what the shorter side is resized to; 0 stands for `size`.
        interpolation: "nearest", "bilinear", "bicubic" or "lanczos".
        mean: subtracted from the channels, which lie in [0, 1].
        std: then they are divided by this.
    """

    size: int
    crop: str = "center"
    resize: int = 0
    interpolation: str = "bicubic"
    mean: tuple[float, float, float] = IMAGENET_MEAN
    std: tuple[float, float, float] = IMAGENET_STD

    def __post_init__(self) -> None:
        if self.size < 1:
            raise OptionError(f"preprocess.size is {self.size}; give 1 or more pixels")
        if self.resize and self.resize < self.size:
            raise OptionError(
                f"preprocess.resize is {self.resize}, smaller than size {self.size}; "
                "a crop cannot be larger than what it is cut from"
            )
        check_choice("preprocess.crop", self.crop, CROPS)
        check_choice("preprocess.interpolation", self.interpolation, INTERPOLATIONS)
        if len(self.mean) != 3 or len(self.std) != 3 or min(self.std) <= 0:
            raise OptionError(
                f"preprocess.mean is {self.mean} and std {self.std}; give three numbers each, "
                "those of std above 0"
            )

    @property
    def wanted(self) -> int:
        """How long the shorter side should be before resizing; more is a waste of decoding."""
        return 2 * max(self.size, self.resize)

    def __call__(self, picture: Image) -> Float[Tensor, "3 size size"]:
        """A picture in RGB as the network's input."""
        return self.batch([self.pixels(picture)])[0]

    def pixels(self, picture: Image) -> UInt8[Tensor, "3 size size"]:
        """A picture in RGB, resized and cropped, not yet normalised."""
        return to_pixels(self.resized(picture))

    def batch(
        self, pixels: Sequence[UInt8[Tensor, "3 h w"]], device: torch.device | str = "cpu"
    ) -> Float[Tensor, "batch 3 h w"]:
        """Bytes as float32 with the mean subtracted, over the standard deviation.

        Channels lie innermost, as in pictures and as convolutions want them: nothing is transposed
        on the way, and whole rows are computed at once.
        """
        rows = torch.stack([one.permute(1, 2, 0) for one in pixels]).to(device)
        mean = torch.tensor(self.mean, device=device).repeat(rows.shape[2]) * 255
        std = torch.tensor(self.std, device=device).repeat(rows.shape[2]) * 255
        found = rows.flatten(2).to(torch.float32).sub_(mean).div_(std)
        return found.view(rows.shape).permute(0, 3, 1, 2)

    def resized(self, picture: Image) -> Image:
        """The part of the picture that the network sees, size by size."""
        method = resampling(self.interpolation)
        if self.crop == "squash":
            return picture.resize((self.size, self.size), method)
        # One resize of the part that survives costs less than resizing all and cutting then.
        side = min(picture.size) * self.size / (self.resize or self.size)
        left, top = (picture.width - side) / 2, (picture.height - side) / 2
        box = (left, top, left + side, top + side)
        return picture.resize((self.size, self.size), method, box=box)


@dataclass(frozen=True)
class RandomResizedCrop:
    """A random part of the picture, resized, and mirrored half of the time (training only).

    Attributes:
        scale: the part's share of the picture's area, from and to (paper, ResNeXt: 0.36 to 1).
        ratio: its width over its height, from and to.
        flip: how often the result is mirrored.
    """

    scale: tuple[float, float] = (0.36, 1.0)
    ratio: tuple[float, float] = (3 / 4, 4 / 3)
    flip: float = 0.5

    def __post_init__(self) -> None:
        if not 0 < self.scale[0] <= self.scale[1] <= 1:
            raise OptionError(f"crop scale is {self.scale}; give 0 < from <= to <= 1")
        if not 0 < self.ratio[0] <= self.ratio[1]:
            raise OptionError(f"crop ratio is {self.ratio}; give 0 < from <= to")
        if not 0 <= self.flip <= 1:
            raise OptionError(f"flip is {self.flip}; give a probability")

    def pixels(
        self, picture: Image, preprocess: Preprocess, generator: np.random.Generator
    ) -> UInt8[Tensor, "3 size size"]:
        """One random view at the size and with the interpolation of `preprocess`."""
        box = self.box(picture.width, picture.height, generator)
        size = (preprocess.size, preprocess.size)
        view = picture.resize(size, resampling(preprocess.interpolation), box=box)
        pixels = to_pixels(view)
        return pixels.flip(-1).contiguous() if generator.random() < self.flip else pixels

    def box(
        self, width: int, height: int, generator: np.random.Generator
    ) -> tuple[int, int, int, int]:
        """Left, top, right, bottom of a random part of a picture of this size."""
        for _ in range(TRIES):
            area = width * height * generator.uniform(*self.scale)
            ratio = math.exp(generator.uniform(*np.log(self.ratio)))
            across, down = round(math.sqrt(area * ratio)), round(math.sqrt(area / ratio))
            if 0 < across <= width and 0 < down <= height:
                left = int(generator.integers(width - across + 1))
                top = int(generator.integers(height - down + 1))
                return left, top, left + across, top + down
        across = max(1, min(width, round(height * self.ratio[1])))
        down = max(1, min(height, round(width / self.ratio[0])))
        left, top = (width - across) // 2, (height - down) // 2
        return left, top, left + across, top + down


def to_pixels(picture: Image) -> UInt8[Tensor, "3 height width"]:
    """An RGB picture as bytes: channels first, but innermost in memory, as Pillow has them."""
    return torch.from_numpy(np.array(picture)).permute(2, 0, 1)


def resampling(name: str) -> int:
    """Pillow's number of an interpolation."""
    methods = import_extra("PIL.Image", "data").Resampling
    return int(methods[name.upper()])
