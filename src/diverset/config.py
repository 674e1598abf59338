"""The architecture of a model as frozen dataclasses, validated, to and from plain dicts.

The defaults are the paper's: D = 1024, K = 4, T = 4, alpha = 16, region features and a bi-GRU.
This module knows nothing of torch, files or the command line.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass, field
from typing import Any, TypeVar, get_type_hints

from diverset.errors import OptionError, check_choice

IMAGE_KINDS = ("regions", "convolution")
TEXT_KINDS = ("bigru", "transformer")
SET_KINDS = ("slots", "pie_net", "transformer", "pooled", "gaussian", "local")
SIMILARITY_KINDS = ("smooth_chamfer", "chamfer", "mil", "match_probability", "scan")


@dataclass(frozen=True)
class ImageConfig:
    """How pictures become local and global features."""

    kind: str = "regions"
    """"regions" of an object detector or the "convolution" map of a CNN."""
    input_width: int = 2048
    """Width of a region's feature, or channels of the map."""
    dropout: float = 0.1
    mlp_reads: str = "projection"
    """Regions only: "projection" as in the paper's code, "input" as in VSE-infinity."""
    pooling: str = "default"
    """Global feature: "max", "average", "gpo"; the default is max on regions, average on maps."""
    backbone: str = ""
    """Network under a convolution map, e.g. "efficientnet_lite2"; empty where maps are given."""
    backbone_size: int = 0
    """Its input in pixels; 0 takes its own."""
    trained_blocks: int = 0
    """How many of its upper blocks are trained: 0 freezes it, -1 trains all."""
    cache_below: bool = False
    """Extract what the frozen blocks below the trained ones give once, into the feature cache, and
    train and store only the blocks above; needs trained_blocks from 1 on."""

    def __post_init__(self) -> None:
        check_choice("image.kind", self.kind, IMAGE_KINDS)
        check_choice("image.mlp_reads", self.mlp_reads, ("projection", "input"))
        check_positive("image.input_width", self.input_width)
        _check_dropout("image.dropout", self.dropout)
        _check_cache_below("image", self.cache_below, self.trained_blocks)

    @property
    def is_cached(self) -> bool:
        """Whether training reads what a frozen network, or frozen blocks, gave once."""
        return self.cache_below or not self.trained_blocks


@dataclass(frozen=True)
class TextConfig:
    """How captions become local and global features."""

    kind: str = "bigru"
    """"bigru" over word embeddings or the hidden states of a "transformer"."""
    vocabulary_size: int = 0
    """Number of words (bigru); 0 takes it from the vocabulary."""
    input_width: int = 300
    """Width of a word embedding (bigru) or of a hidden state (transformer)."""
    dropout: float = 0.1
    positions: bool = True
    """Whether words carry sine positions."""
    pooling: str = "default"
    """Global feature: "last" state (bigru), "max", "average", "gpo"; default: last, or max."""
    bidirectional: bool = True
    """bigru only; False reads forward only, as VSE++ does."""
    local: str = "words"
    """bigru only: local features are the "words" (the paper) or the GRU's "states" (SCAN)."""
    backbone: str = ""
    """Network under the token states, e.g. "minilm"; empty where states are given."""
    trained_blocks: int = 0
    """How many of its upper blocks are trained: 0 freezes it, -1 trains all."""
    cache_below: bool = False
    """Extract what the frozen blocks below the trained ones give once, into the feature cache, and
    train and store only the blocks above; needs trained_blocks from 1 on."""

    def __post_init__(self) -> None:
        check_choice("text.kind", self.kind, TEXT_KINDS)
        check_positive("text.input_width", self.input_width)
        _check_dropout("text.dropout", self.dropout)
        _check_cache_below("text", self.cache_below, self.trained_blocks)

    @property
    def is_cached(self) -> bool:
        """Whether training reads what a frozen network, or frozen blocks, gave once."""
        return self.cache_below or not self.trained_blocks


@dataclass(frozen=True)
class SetConfig:
    """How features become a set of embeddings."""

    kind: str = "slots"
    """"slots" (the paper), "pie_net" (PVSE), "transformer", "pooled" (K = 1), "gaussian" (PCME),
    "local" (SCAN: all local features)."""
    size: int = 4
    """Number K of elements."""
    iterations: int = 4
    """Number T of tied aggregation blocks."""
    heads: int = 1
    """Attention heads: one in the paper, four in its released code."""
    inner_width: int = 2048
    """Width D_h of keys, queries and values (paper: 1024 on a CNN, otherwise 2048)."""
    mlp_factor: float = 4.0
    dropout: float = 0.1
    initial: str = "learned"
    """Initial slots: "learned", or "random" (ablation)."""
    update: str = "residual"
    """Slot update: "residual", or "gru" (ablation)."""
    add_global: bool = True
    """Whether the global feature is added to the slots (False: ablation)."""

    def __post_init__(self) -> None:
        check_choice("set.kind", self.kind, SET_KINDS)
        check_choice("set.initial", self.initial, ("learned", "random"))
        check_choice("set.update", self.update, ("residual", "gru"))
        for name in ("size", "iterations", "heads", "inner_width", "mlp_factor"):
            check_positive(f"set.{name}", getattr(self, name))
        _check_dropout("set.dropout", self.dropout)
        if self.kind == "pooled" and self.size != 1:
            raise OptionError(f"set.size is {self.size}; a pooled set has one element, size 1")


@dataclass(frozen=True)
class SimilarityConfig:
    """How two sets are compared."""

    kind: str = "smooth_chamfer"
    alpha: float = 16.0
    """Scaling of smooth-Chamfer."""
    direction: str = "t2i"
    """scan: which side attends to the other, "t2i" or "i2t"."""
    attention: float = 9.0
    """scan: lambda 1 (9 for t2i, 4 for i2t)."""
    sharpness: float = 6.0
    """scan: lambda 2 (Flickr30K: 6 and 5, COCO: 20)."""
    pooling: str = "lse"
    """scan: "lse" or "mean"."""

    def __post_init__(self) -> None:
        check_choice("similarity.kind", self.kind, SIMILARITY_KINDS)
        check_positive("similarity.alpha", self.alpha)


@dataclass(frozen=True)
class ModelConfig:
    """A whole model: two encoders and the similarity that joins them."""

    dim: int = 1024
    """Width D of the elements."""
    image: ImageConfig = field(default_factory=ImageConfig)
    text: TextConfig = field(default_factory=TextConfig)
    image_set: SetConfig = field(default_factory=SetConfig)
    text_set: SetConfig = field(default_factory=SetConfig)
    similarity: SimilarityConfig = field(default_factory=SimilarityConfig)

    def __post_init__(self) -> None:
        check_positive("dim", self.dim)


Config = TypeVar("Config")


def to_dict(settings: Any) -> dict[str, Any]:
    """A dataclass as plain nested dicts."""
    return dataclasses.asdict(settings)


def chosen_settings(settings: Any) -> dict[str, Any]:
    """Only what differs from the defaults, so that an option added later changes nothing.

    >>> chosen_settings(ModelConfig(dim=64, image_set=SetConfig(size=2)))
    {'dim': 64, 'image_set': {'size': 2}}
    """
    found: dict[str, Any] = {}
    for one in dataclasses.fields(settings):
        value, default = getattr(settings, one.name), getattr(type(settings)(), one.name)
        if value != default:
            nested = dataclasses.is_dataclass(value)
            found[one.name] = chosen_settings(value) if nested else value
    return found


def from_dict(kind: type[Config], values: dict[str, Any], where: str = "") -> Config:
    """Nested dicts as a dataclass; a key it does not have is refused by name.

    >>> from_dict(ModelConfig, {"dim": 64, "image_set": {"size": 2}}).image_set.size
    2
    >>> from_dict(ModelConfig, {"image_set": {"sise": 2}})
    Traceback (most recent call last):
    ...
    diverset.errors.OptionError: unknown option image_set.sise; choose from: ...
    """
    if not isinstance(values, dict):
        raise OptionError(f"{where or 'the configuration'} is {values!r}; give a mapping")
    hints = get_type_hints(kind)
    prefix = f"{where}." if where else ""
    for key in values:
        if key not in hints:
            raise OptionError(f"unknown option {prefix}{key}; choose from: {', '.join(hints)}")
    built: dict[str, Any] = {}
    for key, value in values.items():
        if dataclasses.is_dataclass(hints[key]):
            built[key] = from_dict(hints[key], value, prefix + key)
        else:
            built[key] = _checked(prefix + key, value, hints[key])
    return kind(**built)


def _checked(name: str, value: Any, expected: type) -> Any:
    if expected is float and isinstance(value, int) and not isinstance(value, bool):
        return float(value)
    if not isinstance(value, expected) or (expected is not bool and isinstance(value, bool)):
        raise OptionError(f"{name} is {value!r}; give a {expected.__name__}")
    return value


def check_positive(name: str, value: float) -> None:
    if not value > 0:
        raise OptionError(f"{name} is {value}; give a number above 0")


def _check_dropout(name: str, value: float) -> None:
    if not 0 <= value < 1:
        raise OptionError(f"{name} is {value}; a dropout rate lies in [0, 1)")


def _check_cache_below(name: str, cache_below: bool, trained_blocks: int) -> None:
    if cache_below and trained_blocks < 1:
        raise OptionError(
            f"{name}.cache_below is set and {name}.trained_blocks is {trained_blocks}; there is "
            "something below trained blocks where 1 or more, not all, are trained"
        )
