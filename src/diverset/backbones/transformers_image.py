"""Feature maps of any vision model of the transformers library.

Convolutional networks (ResNet-152) return their last map. The patches of vision transformers (ViT,
the vision half of CLIP, DINOv2, Swin) are arranged as a map, without class and register tokens.
"""

from __future__ import annotations

import inspect
import math
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from diverset.backbones.base import ImageBackbone, largest_list
from diverset.backbones.transformers_loading import load_image_settings, load_network
from diverset.data.preprocess import IMAGENET_MEAN, IMAGENET_STD, Preprocess
from diverset.errors import CheckpointError, OptionError

DEFAULT_SIZE = 224
RESAMPLING = {0: "nearest", 1: "lanczos", 2: "bilinear", 3: "bicubic"}
"""Pillow's numbers, which preprocessor_config.json uses."""


class TransformersImage(ImageBackbone):
    """Pixels to a feature map by a model of the transformers library.

    Args:
        source: a folder written by `save_pretrained`, or a name in the hub's cache.
        size: input pixels; by default those of preprocessor_config.json or config.json.
    """

    def __init__(self, source: str | Path, size: int | None = None) -> None:
        super().__init__()
        network = load_network(source)
        self.name = Path(source).name
        self.network: nn.Module = getattr(network, "vision_model", network)  # CLIP has two halves
        accepted = inspect.signature(self.network.forward).parameters
        if "pixel_values" not in accepted:
            raise CheckpointError(
                f"{source} is a {type(self.network).__name__}, which does not read pixels; "
                "give a vision model"
            )
        if "spatial_shapes" in accepted:
            raise CheckpointError(
                f"{source} reads images of any proportions (NaFlex), which have no square map; "
                "give a SigLIP 2 of a fixed resolution"
            )
        trained = getattr(self.network.config, "image_size", None)
        stored = load_image_settings(source)
        self.preprocess = preprocess_from(stored, trained, size)
        self.interpolate = "interpolate_pos_encoding" in accepted and trained != self.size
        self.eval()
        with torch.no_grad():  # no field of config.json has the width for all networks
            self.width = self(torch.zeros(1, 3, self.size, self.size)).shape[1]

    def feature_map(self, pixels: Tensor) -> Tensor:
        options = {"interpolate_pos_encoding": True} if self.interpolate else {}
        states: Tensor = self.network(pixel_values=pixels, **options).last_hidden_state
        if states.ndim == 4:
            return states
        rows, columns = self._grid(states.shape[1], pixels.shape[2], pixels.shape[3])
        patches = states[:, states.shape[1] - rows * columns :]  # class and register tokens first
        return patches.transpose(1, 2).reshape(len(states), -1, rows, columns)

    def stages(self) -> list[nn.Module]:
        return list(largest_list(self.network))

    def _grid(self, count: int, height: int, width: int) -> tuple[int, int]:
        """Rows and columns of the patches among `count` tokens."""
        patch = getattr(self.network.config, "patch_size", None)
        if isinstance(patch, int) and (height // patch) * (width // patch) <= count:
            return height // patch, width // patch
        side = math.isqrt(count)  # pyramids (Swin) merge patches
        if side * side != count or height != width:
            raise CheckpointError(
                f"{self.name} returns {count} tokens for {height}x{width} pixels, which are not "
                "a grid; give square images or another model"
            )
        return side, side


def preprocess_from(stored: dict[str, Any], trained: object, size: int | None) -> Preprocess:
    """The preprocessing that a preprocessor_config.json describes.

    Args:
        stored: the content of the file; may be empty.
        trained: input pixels in config.json, or None.
        size: input pixels instead of these.

    >>> stored = {"size": {"shortest_edge": 256}, "crop_size": {"height": 224, "width": 224}}
    >>> preprocess = preprocess_from(stored, None, None)
    >>> preprocess.size, preprocess.resize, preprocess.crop
    (224, 256, 'center')
    """
    fallback = trained if isinstance(trained, int) else DEFAULT_SIZE
    edge = stored.get("size", fallback)
    edges: dict[str, Any] = edge if isinstance(edge, dict) else {"shortest_edge": edge}
    squash = "height" in edges and not stored.get("do_center_crop", False)
    shorter = int(edges.get("shortest_edge", edges.get("height", fallback)))
    crop = stored.get("crop_size", shorter) if stored.get("do_center_crop", True) else shorter
    final = int(crop["height"] if isinstance(crop, dict) else crop)
    if "crop_pct" in stored:  # ResNet and ConvNeXt: the size is that of the crop
        shorter = round(final / stored["crop_pct"])
    pixels = size or final
    number = int(stored.get("resample", 3))
    if number not in RESAMPLING:
        raise OptionError(f"resample is {number} in preprocessor_config.json; 0 to 3 are supported")
    plain = not stored.get("do_normalize", True)
    mean = (0.0,) * 3 if plain else tuple(map(float, stored.get("image_mean", IMAGENET_MEAN)))
    std = (1.0,) * 3 if plain else tuple(map(float, stored.get("image_std", IMAGENET_STD)))
    return Preprocess(
        size=pixels,
        crop="squash" if squash else "center",
        resize=0 if squash else max(pixels, round(shorter * pixels / final)),
        interpolation=RESAMPLING[number],
        mean=mean,  # type: ignore[arg-type]
        std=std,  # type: ignore[arg-type]
    )
