"""The image half of a CLIP, SigLIP or SigLIP 2: one projected embedding per view of an image."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self

import torch
from jaxtyping import Float
from PIL.Image import Image
from torch import Tensor, nn

from diverset.backbones.base import ImageBackbone
from diverset.backbones.crops import box_map, grid_side, square_boxes
from diverset.data.images import open_image
from diverset.data.preprocess import Preprocess
from diverset.errors import ShapeError


@dataclass(frozen=True)
class ViewPreprocess(Preprocess):
    """An image as views: the whole image and squares of it, all prepared by the model's processor.

    Attributes:
        crops: number of views.
        processor: the image processor of the transformers library.
    """

    crops: int = 1
    processor: Any = field(default=None, repr=False, compare=False)

    def open(self, path: str | Path, data: bytes | None = None) -> Image:
        """Open an image file at the resolution that the smallest square needs."""
        pixels = 2 * max(self.size, self.resize) * max(1, grid_side(self.crops))
        return open_image(path, pixels, data)

    def pixels(self, image: Image) -> Float[Tensor, "views ..."]:
        """The inputs of all views, normalised."""
        squares = [image.crop(box) for box in square_boxes(image.size, self.crops)]
        return pack(self.processor([image, *squares], return_tensors="pt"))

    def batch(
        self, pixels: Sequence[Tensor], device: torch.device | str = "cpu"
    ) -> Float[Tensor, "batch views ..."]:
        """Stack the output of `pixels`."""
        return torch.stack(list(pixels)).to(device)

    def visible_box(self, size: tuple[int, int]) -> tuple[int, int, int, int]:
        """The whole image: views may lie anywhere in it."""
        return 0, 0, *size

    def view_maps(self, size: tuple[int, int]) -> Float[Tensor, "views rows columns"]:
        """Which part of an image of this size each view shows."""
        boxes = [super().visible_box(size), *square_boxes(size, self.crops)]
        return torch.stack([box_map(box, size) for box in boxes])


class DualEncoderImages(ImageBackbone):
    """Views to embeddings, arranged as the cells of a map: (batch, width, views, 1).

    `projection` maps the pooled output of `network` to the space that texts share (identity for
    SigLIP). `configuration` is what decides the output besides the weights.
    """

    preprocess: ViewPreprocess

    def __init__(
        self,
        name: str,
        network: Any,
        projection: nn.Module,
        preprocess: ViewPreprocess,
        configuration: str,
    ) -> None:
        super().__init__()
        self.name, self.network, self.projection = name, network, projection
        self.preprocess = preprocess
        self.width = int(getattr(projection, "out_features", network.config.hidden_size))
        self._configuration = configuration
        self.eval()

    def forward(self, pixels: Float[Tensor, "batch views ..."]) -> Tensor:
        if pixels.ndim < 4 or pixels.shape[1] != self.preprocess.crops:
            raise ShapeError(
                f"pixels for {self.name} are {tuple(pixels.shape)}; give the output of its "
                f"`preprocess`, {self.preprocess.crops} views per image"
            )
        return self.feature_map(pixels)

    def feature_map(self, pixels: Tensor) -> Tensor:
        inputs = unpack(pixels.flatten(0, 1))
        embeddings: Tensor = self.projection(self.network(**inputs).pooler_output)
        return embeddings.view(*pixels.shape[:2], -1).transpose(1, 2)[..., None]

    def for_inference(self) -> Self:
        return self.requires_grad_(False)  # there is nothing to fuse, and a copy would be large

    def stages(self) -> list[nn.Module]:
        return [self.network]

    def settings(self) -> str:
        return f"{self.preprocess!r} {self._configuration}"


def pack(inputs: Any) -> Float[Tensor, "views ..."]:
    """What an image processor returns as one tensor.

    SigLIP 2 (NaFlex) cuts images of any proportions into patches (views, patches, width), padded.
    The rows and columns of an image are appended to its patches, and zeros to the padding.
    """
    pixels: Tensor = inputs["pixel_values"]
    if "spatial_shapes" not in inputs:
        return pixels
    mask = inputs["pixel_attention_mask"].to(pixels.dtype)[..., None]
    shapes = inputs["spatial_shapes"].to(pixels.dtype)[:, None]
    return torch.cat([pixels, shapes * mask], dim=-1)


def unpack(packed: Tensor) -> dict[str, Tensor]:
    """The arguments of the vision model; the inverse of `pack`."""
    if packed.ndim == 4:
        return {"pixel_values": packed}
    pixels, shapes = packed[..., :-2], packed[..., -2:]
    return {
        "pixel_values": pixels,
        "pixel_attention_mask": (shapes[..., 0] > 0).long(),
        "spatial_shapes": shapes[:, 0].long(),
    }
