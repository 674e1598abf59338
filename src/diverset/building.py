"""From the configuration to modules: which class each kind is."""

from __future__ import annotations

from torch import nn

from diverset.config import ImageConfig, SetConfig, TextConfig
from diverset.data.vocabulary import Vocabulary
from diverset.errors import OptionError
from diverset.features import (
    BiGruFeatures,
    ConvolutionalFeatures,
    RegionFeatures,
    TransformerFeatures,
)
from diverset.sets import GaussianSets, PieNet, PooledSet, SlotSets, TransformerSets


def image_features(dim: int, image: ImageConfig) -> RegionFeatures | ConvolutionalFeatures:
    if image.kind == "regions":
        return RegionFeatures(dim, image.input_width, image.dropout, image.mlp_reads)
    return ConvolutionalFeatures(dim, image.input_width, image.dropout)


def text_features(
    dim: int, text: TextConfig, vocabulary: Vocabulary | None
) -> BiGruFeatures | TransformerFeatures:
    if text.kind == "transformer":
        return TransformerFeatures(dim, text.input_width, text.dropout, text.positions)
    size = text.vocabulary_size or (len(vocabulary) if vocabulary is not None else 0)
    if not size:
        raise OptionError("a bi-GRU needs a vocabulary, or text.vocabulary_size; neither is given")
    if vocabulary is not None and len(vocabulary) > size:
        raise OptionError(
            f"text.vocabulary_size is {size}, the vocabulary has {len(vocabulary)} words; "
            "leave the option at 0 to take it from the vocabulary"
        )
    return BiGruFeatures(dim, size, text.input_width, text.dropout, text.positions)


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
    return PooledSet()
