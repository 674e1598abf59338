"""Pixels to sets, in the way that is fastest here and that evaluation uses too."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import torch
from PIL.Image import Image
from torch import Tensor

from diverset.data.images import open_picture
from diverset.data.preprocess import Preprocess
from diverset.index.base import Sets
from diverset.model import Model


class PictureEncoder:
    """The picture half of a model.

    Args:
        model: one with a network under its picture encoder.
        precision: of a frozen network, "bfloat16" or "float32"; by default what is fast here.
    """

    def __init__(self, model: Model, precision: str = "") -> None:
        self.model, self.network = model, model.picture_network()
        self.precision = precision or ("bfloat16" if has_bfloat16() else "float32")

    @property
    def preprocess(self) -> Preprocess:
        return self.network.preprocess

    def pixels(self, picture: Image) -> Tensor:
        """A picture in RGB as the bytes that `encode` takes."""
        return self.preprocess.pixels(picture)

    def open(self, path: str | Path, data: bytes | None = None) -> Tensor:
        """The bytes of a file."""
        return self.pixels(open_picture(path, at_least=self.preprocess.wanted, data=data))

    def inputs(self, pixels: Sequence[Tensor]) -> Tensor:
        """What the model's picture encoder reads: maps of what is frozen, or pixels."""
        batch = self.preprocess.normalize(torch.stack(list(pixels)).to(self.model.device))
        if self.network is self.model.image_encoder.backbone:
            return batch
        batch = batch.contiguous(memory_format=torch.channels_last)
        low = self.precision == "bfloat16"
        with torch.inference_mode(), torch.autocast(batch.device.type, torch.bfloat16, low):
            maps: Tensor = self.network(batch)
        return maps.float().clone()

    def encode(self, pixels: Sequence[Tensor]) -> Sets:
        """The sets of some pictures."""
        return self.model.encode_images(self.inputs(pixels)).float().cpu().numpy()


def has_bfloat16() -> bool:
    """Whether this processor multiplies bfloat16 itself; else it would be slower than float32."""
    names = ("_is_avx512_bf16_supported", "_is_amx_tile_supported")
    return any(getattr(torch.cpu, name, bool)() for name in names)
