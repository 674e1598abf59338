"""From an image file to the pixels that a network reads: decode, resize, crop, normalise.

`Preprocess` is deterministic and part of a backbone's fingerprint; `RandomResizedCrop` is the
training augmentation.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from jaxtyping import Float, UInt8
from PIL.Image import Image, Resampling
from torch import Tensor

from diverset.data.images import open_image
from diverset.errors import OptionError, check_choice

CROPS = ("center", "squash")
INTERPOLATIONS = ("nearest", "bilinear", "bicubic", "lanczos")
IMAGENET_MEAN = (0.485, 0.456, 0.406)
IMAGENET_STD = (0.229, 0.224, 0.225)
TRIES = 10
"""Attempts at a random crop before falling back to the largest central one."""


@dataclass(frozen=True)
class Preprocess:
    """Image to a (3, size, size) tensor, deterministically.

    Attributes:
        size: height and width of the result.
        crop: "center" resizes the shorter side and crops the center, "squash" resizes both sides
            to `size` and changes only the proportions.
        resize: with "center", length of the shorter side after resizing; 0 means `size`.
        interpolation: "nearest", "bilinear", "bicubic" or "lanczos".
        mean: subtracted from the channels, which are in [0, 1].
        std: divides them afterwards.
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

    def open(self, path: str | Path, data: bytes | None = None) -> Image:
        """Open an image file at the resolution that `pixels` needs; see `open_image`."""
        return open_image(path, 2 * max(self.size, self.resize), data)

    def __call__(self, image: Image) -> Float[Tensor, "3 size size"]:
        """An RGB image as input of the network."""
        return self.batch([self.pixels(image)])[0]

    def pixels(self, image: Image) -> UInt8[Tensor, "3 size size"]:
        """An RGB image, resized and cropped, not yet normalised."""
        return to_pixels(self.resized(image))

    def batch(
        self, pixels: Sequence[UInt8[Tensor, "3 h w"]], device: torch.device | str = "cpu"
    ) -> Float[Tensor, "batch 3 h w"]:
        """Stack and normalise the output of `pixels`.

        The memory layout is channels-last, that of images and the fastest one for convolutions.
        """
        rows = torch.stack([image.permute(1, 2, 0) for image in pixels]).to(device)
        mean = torch.tensor(self.mean, device=device).repeat(rows.shape[2]) * 255
        std = torch.tensor(self.std, device=device).repeat(rows.shape[2]) * 255
        normalised = rows.flatten(2).to(torch.float32).sub_(mean).div_(std)
        return normalised.view(rows.shape).permute(0, 3, 1, 2)

    def resized(self, image: Image) -> Image:
        """The part of the image that the network sees, (size, size)."""
        if self.crop == "squash":
            return self.scaled(image)
        # Resizing only the cropped part is cheaper than cropping afterwards.
        side = min(image.size) * self.size / (self.resize or self.size)
        left, top = (image.width - side) / 2, (image.height - side) / 2
        return self.scaled(image, (left, top, left + side, top + side))

    def scaled(self, image: Image, box: tuple[float, float, float, float] | None = None) -> Image:
        """A part of an image, or all of it, resized to (size, size)."""
        return image.resize((self.size, self.size), Resampling[self.interpolation.upper()], box)

    def visible_box(self, size: tuple[int, int]) -> tuple[int, int, int, int]:
        """Left, top, right and bottom of the part of an image of this size that the network sees.

        >>> Preprocess(224, crop="squash").visible_box((200, 100))
        (0, 0, 200, 100)
        >>> Preprocess(224, crop="center", resize=256).visible_box((200, 100))
        (56, 6, 144, 94)
        """
        width, height = size
        if self.crop == "squash":
            return 0, 0, width, height
        side = max(1, round(min(size) * self.size / (self.resize or self.size)))
        left, top = (width - side) // 2, (height - side) // 2
        return left, top, left + side, top + side


@dataclass(frozen=True)
class RandomResizedCrop:
    """A random part of the image, resized and randomly mirrored (training only).

    Attributes:
        scale: range of the area relative to that of the image (paper, ResNeXt: 0.36 to 1).
        ratio: range of width / height.
        flip: probability of mirroring.
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
        self, image: Image, preprocess: Preprocess, rng: np.random.Generator
    ) -> UInt8[Tensor, "3 size size"]:
        """A random view with the size and interpolation of `preprocess`."""
        box = self.box(image.width, image.height, rng)
        pixels = to_pixels(preprocess.scaled(image, box))
        return pixels.flip(-1).contiguous() if rng.random() < self.flip else pixels

    def box(self, width: int, height: int, rng: np.random.Generator) -> tuple[int, int, int, int]:
        """Left, top, right, bottom of a random part of an image of this size."""
        for _ in range(TRIES):
            area = width * height * rng.uniform(*self.scale)
            ratio = math.exp(rng.uniform(*np.log(self.ratio)))
            across, down = round(math.sqrt(area * ratio)), round(math.sqrt(area / ratio))
            if 0 < across <= width and 0 < down <= height:
                left = int(rng.integers(width - across + 1))
                top = int(rng.integers(height - down + 1))
                return left, top, left + across, top + down
        across = max(1, min(width, round(height * self.ratio[1])))
        down = max(1, min(height, round(width / self.ratio[0])))
        left, top = (width - across) // 2, (height - down) // 2
        return left, top, left + across, top + down


def to_pixels(image: Image) -> UInt8[Tensor, "3 height width"]:
    """An RGB image as a channels-first tensor, channels-last in memory as in Pillow."""
    return torch.from_numpy(np.array(image)).permute(2, 0, 1)
