"""From the configuration to modules: which class implements each kind."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any, NamedTuple

from torch import nn

from diverset.backbones import Backbone, load_image_backbone, load_text_backbone, load_text_parts
from diverset.config import (
    PRECOMPUTED,
    ImageConfig,
    ModelConfig,
    SetConfig,
    SimilarityConfig,
    TextConfig,
)
from diverset.cross_attention import Caan, Imram, Naaf, Sgraf
from diverset.data.vocabulary import Vocabulary
from diverset.errors import OptionError
from diverset.features import (
    BiGruFeatures,
    ConvolutionalFeatures,
    GraphRegionFeatures,
    RegionFeatures,
    TransformerFeatures,
)
from diverset.sets import (
    GaussianSets,
    LocalSets,
    PieNet,
    PooledSet,
    PrecomputedSets,
    SlotSets,
    TransformerSets,
)


class BackboneParts(NamedTuple):
    """A backbone of which something is trained.

    Attributes:
        frozen: its first blocks, if their features are cached.
        trainable: the blocks after them; without a cache the whole backbone.
    """

    frozen: Backbone | None = None
    trainable: Backbone | None = None


def backbone_parts(config: ImageConfig | TextConfig, pretrained: bool = True) -> BackboneParts:
    """Load a backbone if something of it is trained.

    `pretrained` False skips reading weights where the backbone can be built without them.
    """
    if not config.trainable_blocks:
        return BackboneParts()
    if isinstance(config, TextConfig) and config.cache_frozen_features and not pretrained:
        return BackboneParts(*load_text_parts(config.backbone or "", config.trainable_blocks))
    backbone = configured_backbone(config, pretrained)
    if config.cache_frozen_features:
        return BackboneParts(*backbone.split(config.trainable_blocks))
    if config.trainable_blocks > 0:
        backbone.set_trainable_blocks(config.trainable_blocks)
    return BackboneParts(None, backbone)


def frozen_backbone(config: ImageConfig | TextConfig) -> Backbone:
    """A frozen backbone, or its blocks before the trainable ones."""
    backbone = configured_backbone(config)
    return backbone.split(config.trainable_blocks)[0] if config.cache_frozen_features else backbone


def configured_backbone(config: ImageConfig | TextConfig, pretrained: bool = True) -> Backbone:
    """The whole backbone of a configuration."""
    is_image = isinstance(config, ImageConfig)
    if config.backbone is None:
        side, inputs = ("image", "maps or regions") if is_image else ("text", "token states")
        raise OptionError(
            f"this model has no {side} backbone ({side}.backbone is null); give it {inputs}"
        )
    if isinstance(config, ImageConfig):
        return load_image_backbone(config.backbone, config.backbone_size, pretrained=pretrained)
    return load_text_backbone(config.backbone)


def image_modules(config: ModelConfig) -> tuple[nn.Module, nn.Module]:
    """Feature extractor and set module of images."""
    if config.image_set.kind == PRECOMPUTED:
        return nn.Identity(), PrecomputedSets()
    features = image_features(config.dim, config.image)
    return features, set_module(config.dim, features.width, config.image_set)


def text_modules(config: ModelConfig, vocabulary: Vocabulary | None) -> tuple[nn.Module, nn.Module]:
    """Feature extractor and set module of texts."""
    if config.text_set.kind == PRECOMPUTED:
        return nn.Identity(), PrecomputedSets()
    features = text_features(config.dim, config.text, vocabulary)
    return features, set_module(config.dim, features.width, config.text_set)


def image_features(
    dim: int, image: ImageConfig
) -> RegionFeatures | ConvolutionalFeatures | GraphRegionFeatures:
    """The feature extractor of images."""
    width, dropout = image.input_width, image.dropout
    if image.graph is not None:
        return GraphRegionFeatures(dim, width, image.graph, image.graph_corrected, image.grid)
    if image.kind == "regions":
        return RegionFeatures(dim, width, dropout, image.mlp_reads, image.pooling or "max")
    pooling, scale = image.pooling or "average", image.position_scale
    return ConvolutionalFeatures(dim, width, dropout, pooling, image.grid, scale)


def text_features(
    dim: int, text: TextConfig, vocabulary: Vocabulary | None
) -> BiGruFeatures | TransformerFeatures:
    """The feature extractor of texts."""
    if text.kind == "transformer":
        pooling = text.pooling or "max"
        return TransformerFeatures(dim, text.input_width, text.dropout, text.positions, pooling)
    words = 0 if vocabulary is None else len(vocabulary)
    size = text.vocabulary_size or words
    if not size:
        raise OptionError("a bi-GRU needs a vocabulary or text.vocabulary_size; give one")
    if words > size:
        raise OptionError(
            f"text.vocabulary_size is {size}, the vocabulary has {words} words; leave the option "
            "out to take it from the vocabulary"
        )
    return BiGruFeatures(
        dim,
        size,
        text.input_width,
        text.dropout,
        text.positions,
        bidirectional=text.bidirectional,
        local=text.local,
        pooling=text.pooling or "last",
        word_range=text.word_range,
        merge=text.merge,
    )


def set_module(dim: int, input_width: int, config: SetConfig) -> nn.Module:
    """The set module of either side, of one of the kinds in `SET_KINDS`."""
    options: dict[str, Any] = asdict(config)
    kind, size, dropout = options.pop("kind"), config.size, config.dropout
    match kind:
        case "slots":
            return SlotSets(dim, input_width, **options)
        case "transformer":
            return TransformerSets(
                dim, input_width, size, config.iterations, config.heads, config.mlp_factor, dropout
            )
        case "pie_net":
            return PieNet(dim, input_width, size, dropout)
        case "gaussian":
            return GaussianSets(dim, input_width, size, dropout)
        case "local":
            return LocalSets(dim, input_width)
        case _:  # "pooled"
            return PooledSet()


def cross_attention_module(dim: int, config: SimilarityConfig) -> nn.Module | None:
    """The cross-attention of a similarity; None if it has neither weights nor state."""
    match config.kind:
        case "imram":
            return Imram(dim, config.steps, config.attention, mode=config.mode)
        case "sgr" | "saf":
            width = config.inner_width or 256
            return Sgraf(config.kind, dim, config.max_regions, width, config.dropout)
        case "naaf":
            return Naaf(config.attention).float()  # saved with the weights, in their precision
        case "caan":
            return Caan(dim, config.inner_width or 128)
    return None
