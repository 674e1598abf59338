"""From the configuration to modules: which class each kind is."""

from __future__ import annotations

from typing import NamedTuple

from torch import nn

from diverset.backbones import (
    Backbone,
    PictureBackbone,
    TextBackbone,
    load_picture_backbone,
    load_text_backbone,
)
from diverset.config import ImageConfig, ModelConfig, SetConfig, TextConfig
from diverset.data.vocabulary import Vocabulary
from diverset.errors import OptionError
from diverset.features import (
    BiGruFeatures,
    ConvolutionalFeatures,
    RegionFeatures,
    TransformerFeatures,
)
from diverset.sets import GaussianSets, LocalSets, PieNet, PooledSet, SlotSets, TransformerSets


class TrainedBackbones(NamedTuple):
    """The networks that are part of a model; None for what is frozen or not there."""

    pictures: Backbone | None
    texts: Backbone | None


def trained_backbones(architecture: ModelConfig) -> TrainedBackbones:
    """Load the networks of which something is trained: whole, their lower blocks frozen, or where
    the states below are cached, only the upper blocks."""
    image, text = architecture.image, architecture.text
    return TrainedBackbones(
        _trained(load_pictures(image), image) if image.trained_blocks else None,
        _trained(load_texts(text), text) if text.trained_blocks else None,
    )


def _trained(network: Backbone, chosen: ImageConfig | TextConfig) -> Backbone:
    if chosen.cache_below:
        return network.split(chosen.trained_blocks)[1]
    if chosen.trained_blocks > 0:
        network.freeze_below(chosen.trained_blocks)
    return network


def frozen_pictures(image: ImageConfig) -> PictureBackbone:
    """What is frozen under the picture encoder: a network, or its part below trained blocks."""
    network = load_pictures(image)
    return network.split(image.trained_blocks)[0] if image.cache_below else network


def frozen_texts(text: TextConfig) -> TextBackbone:
    """What is frozen under the text encoder: a network, or its part below trained blocks."""
    network = load_texts(text)
    return network.split(text.trained_blocks)[0] if text.cache_below else network


def load_pictures(image: ImageConfig) -> PictureBackbone:
    """The network under the picture encoder."""
    if not image.backbone:
        raise OptionError(
            "this model has no network for pictures (image.backbone is empty); "
            "give it feature maps or regions"
        )
    return load_picture_backbone(image.backbone, image.backbone_size or None)


def load_texts(text: TextConfig) -> TextBackbone:
    """The network under the text encoder."""
    if not text.backbone:
        raise OptionError(
            "this model has no network for texts (text.backbone is empty); give it token states"
        )
    return load_text_backbone(text.backbone)


def image_features(dim: int, image: ImageConfig) -> RegionFeatures | ConvolutionalFeatures:
    if image.kind == "regions":
        pooling = "max" if image.pooling == "default" else image.pooling
        return RegionFeatures(dim, image.input_width, image.dropout, image.mlp_reads, pooling)
    pooling = "average" if image.pooling == "default" else image.pooling
    return ConvolutionalFeatures(dim, image.input_width, image.dropout, pooling)


def text_features(
    dim: int, text: TextConfig, vocabulary: Vocabulary | None
) -> BiGruFeatures | TransformerFeatures:
    if text.kind == "transformer":
        pooling = "max" if text.pooling == "default" else text.pooling
        return TransformerFeatures(dim, text.input_width, text.dropout, text.positions, pooling)
    size = text.vocabulary_size or (len(vocabulary) if vocabulary is not None else 0)
    if not size:
        raise OptionError("a bi-GRU needs a vocabulary, or text.vocabulary_size; neither is given")
    if vocabulary is not None and len(vocabulary) > size:
        raise OptionError(
            f"text.vocabulary_size is {size}, the vocabulary has {len(vocabulary)} words; "
            "leave the option at 0 to take it from the vocabulary"
        )
    return BiGruFeatures(
        dim,
        size,
        text.input_width,
        text.dropout,
        text.positions,
        bidirectional=text.bidirectional,
        local=text.local,
        pooling="last" if text.pooling == "default" else text.pooling,
    )


def set_module(dim: int, input_width: int, chosen: SetConfig) -> nn.Module:
    size, dropout = chosen.size, chosen.dropout
    match chosen.kind:
        case "slots":
            return SlotSets(
                dim,
                input_width,
                size=size,
                iterations=chosen.iterations,
                heads=chosen.heads,
                inner_width=chosen.inner_width,
                mlp_factor=chosen.mlp_factor,
                dropout=dropout,
                initial=chosen.initial,
                update=chosen.update,
                add_global=chosen.add_global,
            )
        case "transformer":
            return TransformerSets(
                dim, input_width, size, chosen.iterations, chosen.heads, chosen.mlp_factor, dropout
            )
        case "pie_net":
            return PieNet(dim, input_width, size, dropout)
        case "gaussian":
            return GaussianSets(dim, input_width, size, dropout)
        case "local":
            return LocalSets(dim, input_width)
    return PooledSet()
