"""Any vision model of the transformers library as a source of feature maps.

Convolutional networks (ResNet-152) give their last map. Vision transformers (ViT, the vision half
of CLIP, DINOv2, Swin) give their patches laid out as a map again, without class and register
tokens.
"""

from __future__ import annotations

import inspect
import math
from pathlib import Path
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor, nn

from diverset.backbones.base import PictureBackbone, check_pixels, largest_list
from diverset.backbones.transformers_loading import load_network, load_picture_settings
from diverset.data.preprocess import IMAGENET_MEAN, IMAGENET_STD, Preprocess
from diverset.errors import CheckpointError, OptionError

DEFAULT_SIZE = 224
RESAMPLING = {0: "nearest", 1: "lanczos", 2: "bilinear", 3: "bicubic"}
"""Pillow's numbers, as preprocessor_config.json has them."""


class TransformersImage(PictureBackbone):
    """Pixels to a feature map by a model of the transformers library.

    Args:
        source: a folder that `save_pretrained` wrote, or a name on the hub.
        size: input pixels; by default what the folder's preprocessor_config.json or config says.
        allow_download: whether the hub may be asked for what is not on this machine.
    """

    def __init__(
        self, source: str | Path, size: int | None = None, allow_download: bool = False
    ) -> None:
        super().__init__()
        network = load_network(source, allow_download)
        self.name = Path(source).name
        self.network: nn.Module = getattr(network, "vision_model", network)  # CLIP has two halves
        accepted = inspect.signature(self.network.forward).parameters
        if "pixel_values" not in accepted:
            raise CheckpointError(
                f"{source} is a {type(self.network).__name__}, which does not read pixels; "
                "give a vision model"
            )
        trained = getattr(self.network.config, "image_size", None)
        stored = load_picture_settings(source, allow_download)
        self.preprocess = preprocess_from(stored, trained, size)
        self.interpolate = "interpolate_pos_encoding" in accepted and trained != self.size
        self.eval()
        with torch.no_grad():  # what comes out is not in any one field of the many configs
            self.width = self(torch.zeros(1, 3, self.size, self.size)).shape[1]

    def forward(
        self, pixels: Float[Tensor, "batch 3 height width"]
    ) -> Float[Tensor, "batch channels rows columns"]:
        check_pixels(self.name, pixels)
        more = {"interpolate_pos_encoding": True} if self.interpolate else {}
        found: Tensor = self.network(pixel_values=pixels, **more).last_hidden_state
        return found if found.ndim == 4 else self._as_map(found, pixels)

    def stages(self) -> list[nn.Module]:
        return list(largest_list(self.network))

    def _as_map(self, tokens: Tensor, pixels: Tensor) -> Tensor:
        rows, columns = self._grid(tokens.shape[1], pixels.shape[2], pixels.shape[3])
        patches = tokens[:, tokens.shape[1] - rows * columns :]
        return patches.transpose(1, 2).reshape(len(tokens), -1, rows, columns)

    def _grid(self, count: int, height: int, width: int) -> tuple[int, int]:
        patch = getattr(self.network.config, "patch_size", None)
        if isinstance(patch, int) and (height // patch) * (width // patch) <= count:
            return height // patch, width // patch
        side = math.isqrt(count)  # pyramids (Swin) have merged their patches
        if side * side != count or height != width:
            raise CheckpointError(
                f"{self.name} gives {count} tokens for {height}x{width} pixels, which are not a "
                "grid; give square pictures or another model"
            )
        return side, side


def preprocess_from(stored: dict[str, Any], trained: object, size: int | None) -> Preprocess:
    """What a preprocessor_config.json describes, as our own preprocessing.

    Args:
        stored: the content of the file; may be empty.
        trained: input pixels that the network's own config names, or None.
        size: what the caller wants instead.

    >>> stored = {"size": {"shortest_edge": 256}, "crop_size": {"height": 224, "width": 224}}
    >>> found = preprocess_from(stored, None, None)
    >>> found.size, found.resize, found.crop
    (224, 256, 'center')
    """
    fallback = trained if isinstance(trained, int) else DEFAULT_SIZE
    edge = stored.get("size", fallback)
    edges: dict[str, Any] = edge if isinstance(edge, dict) else {"shortest_edge": edge}
    squash = "height" in edges and not stored.get("do_center_crop", False)
    shorter = int(edges.get("shortest_edge", edges.get("height", fallback)))
    cut = stored.get("crop_size", shorter) if stored.get("do_center_crop", True) else shorter
    final = int(cut["height"] if isinstance(cut, dict) else cut)
    if "crop_pct" in stored:  # ResNet and ConvNeXt: the size is that of the crop
        shorter = round(final / stored["crop_pct"])
    wanted = size or final
    number = int(stored.get("resample", 3))
    if number not in RESAMPLING:
        raise OptionError(f"resample is {number} in preprocessor_config.json; diverset knows 0-3")
    plain = not stored.get("do_normalize", True)
    mean = (0.0,) * 3 if plain else tuple(map(float, stored.get("image_mean", IMAGENET_MEAN)))
    std = (1.0,) * 3 if plain else tuple(map(float, stored.get("image_std", IMAGENET_STD)))
    return Preprocess(
        size=wanted,
        crop="squash" if squash else "center",
        resize=0 if squash else max(wanted, round(shorter * wanted / final)),
        interpolation=RESAMPLING[number],
        mean=mean,  # type: ignore[arg-type]
        std=std,  # type: ignore[arg-type]
    )
