"""The architecture of a model as validated frozen dataclasses, and reading them from plain dicts.

The defaults are the paper's: D = 1024, K = 4, T = 4, alpha = 16, region features and a bi-GRU.
None, null in YAML, means "not given".
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar, get_args, get_origin, get_type_hints

from diverset.errors import OptionError, check_choice, check_positive

SET_KINDS = ("slots", "pie_net", "transformer", "pooled", "gaussian", "local")
PRECOMPUTED = "precomputed"  # sets of a model that is not built from a recipe, such as a CLIP
CROSS_ATTENTION = ("scan", "imram", "sgr", "saf", "naaf", "caan")
SIMILARITY_KINDS = ("smooth_chamfer", "chamfer", "mil", "match_probability", *CROSS_ATTENTION)
GRAPHS = ("coco", "f30k")
MERGES = ("mean", "concatenate")
LOCALS = ("words", "states")
POOLINGS = ("max", "average", "gpo")
MLP_READS = ("projection", "input", "nothing")
INITIAL_SLOTS = ("learned", "random")
SLOT_UPDATES = ("residual", "gru")
DIRECTIONS = ("t2i", "i2t")
SCAN_POOLINGS = ("lse", "mean")
IMRAM_MODES = ("full", "text", "image")
PRECISIONS = ("float32", "bfloat16", "float16")

# A configuration comes with a model, which may be from an unknown source.
MAX_NUMBER = 2**24
MAX_OPTIONS = {
    "size": 4096, "iterations": 100, "steps": 100, "heads": 1024, "mlp_factor": 1024, "grid": 1024,
    "backbone_size": 4096, "max_regions": 4096, "trainable_blocks": 1024,
}  # fmt: skip


@dataclass(frozen=True)
class EncoderConfig:
    """What both encoders can configure: regularization, global feature, pretrained backbone."""

    dropout: float = 0.1
    pooling: str | None = None
    """Global feature: "max", "average" or "gpo", or the "last" state of a bigru. null: max over
    regions and tokens, average over maps, last of a bigru."""
    backbone: str | None = None
    """Network that computes the inputs, e.g. "efficientnet_lite2" for images or "minilm" for texts;
    null if inputs are maps, regions, words or token states."""
    trainable_blocks: int = 0
    """Number of trained blocks, counted from the output: 0 freezes the backbone, -1 trains all."""
    cache_frozen_features: bool = False
    """Compute the output of the frozen blocks once, into the feature cache; train and save only
    the blocks after them. Needs trainable_blocks of 1 or more."""

    @property
    def is_cached(self) -> bool:
        """Whether training reads cached features of a frozen backbone or of frozen blocks."""
        return self.cache_frozen_features or not self.trainable_blocks

    def _check(self, side: str, **choices: Sequence[str]) -> None:
        _check_options(self, side, **choices)
        if self.cache_frozen_features and self.trainable_blocks < 1:
            raise OptionError(
                f"{side}.cache_frozen_features is set and {side}.trainable_blocks is "
                f"{self.trainable_blocks}; caching needs 1 or more trainable blocks, but not all"
            )


@dataclass(frozen=True)
class ImageConfig(EncoderConfig):
    """How images become local and global features (Sec. 3.1)."""

    kind: str = "regions"
    """"regions" of an object detector or the "convolution" map of a CNN."""
    input_width: int = 2048
    """Width of a region's feature, or channels of the map."""
    mlp_reads: str = "projection"
    """Regions only: "projection" as in the paper's code, "input" as in VSE-infinity, "nothing" for
    a linear projection without MLP as in SCAN."""
    grid: int | None = None
    """Convolution only: average the map to this many rows and columns; null keeps all cells."""
    position_scale: float = 1.0
    """Convolution only: factor on the difference of position codes from their mean over the cells.
    Above 1, slots divide an image by place rather than by content."""
    graph: str | None = None
    """VSRN: graph layers and a GRU over regions or cells, in the published variant for "coco" or
    "f30k"; null for none. `pooling`, `dropout` and `mlp_reads` then do not apply."""
    graph_corrected: bool = False
    """VSRN: normalise every region. The published code normalises every feature over regions."""
    backbone_size: int | None = None
    """Input size of the backbone in pixels; null for its default."""

    def __post_init__(self) -> None:
        kinds = ("regions", "convolution")
        self._check("image", kind=kinds, mlp_reads=MLP_READS, graph=GRAPHS, pooling=POOLINGS)
        if self.graph is not None and self.pooling is not None:
            raise OptionError(
                f"image.graph is {self.graph} and image.pooling {self.pooling}; the graph's GRU "
                "computes the global feature, so set image.pooling to null"
            )
        if self.grid is not None and self.kind != "convolution":
            raise OptionError(
                f"image.grid is {self.grid}, but image.kind is {self.kind}; only maps have a grid"
            )


@dataclass(frozen=True)
class TextConfig(EncoderConfig):
    """How captions become local and global features (Sec. 3.1)."""

    kind: str = "bigru"
    """"bigru" over word embeddings or the hidden states of a "transformer"."""
    vocabulary_size: int | None = None
    """Number of words (bigru); null takes it from the vocabulary."""
    input_width: int = 300
    """Width of a word embedding (bigru) or of a hidden state (transformer)."""
    positions: bool = True
    """Whether sine position codes are added to the words."""
    bidirectional: bool = True
    """bigru only; False reads forward only, as in VSE++."""
    local: str = "words"
    """bigru only: local features are the "words" (the paper) or the GRU's "states" (SCAN)."""
    merge: str = "mean"
    """bigru only: both directions by "mean", or "concatenate" (PVSE)."""
    word_range: float | None = None
    """bigru only: initial word embeddings are uniform within ± this number (0.1 in VSE++, SCAN and
    their successors); null draws them from a normal distribution."""

    def __post_init__(self) -> None:
        kinds = ("bigru", "transformer")
        poolings = (*POOLINGS, "last") if self.kind == "bigru" else POOLINGS
        self._check("text", kind=kinds, local=LOCALS, merge=MERGES, pooling=poolings)


@dataclass(frozen=True)
class SetConfig:
    """How features become an embedding set (Sec. 3.2)."""

    kind: str = "slots"
    """"slots" (the paper), "pie_net" (PVSE), "transformer", "pooled" (K = 1), "gaussian" (PCME),
    "local" (all local features, for cross-attention); "precomputed" for embeddings of a CLIP."""
    size: int = 4
    """Number K of elements."""
    iterations: int = 4
    """Number T of tied aggregation blocks."""
    heads: int = 1
    """Attention heads: one in the paper, four in its released code."""
    inner_width: int = 2048
    """Width D_h of keys, queries and values (paper: 1024 on a CNN, otherwise 2048)."""
    mlp_factor: float = 4.0
    """Width of the MLP's hidden layer divided by D."""
    dropout: float = 0.1
    initial: str = "learned"
    """Initial slots: "learned", or "random" (ablation)."""
    update: str = "residual"
    """Slot update: "residual", or "gru" (ablation)."""
    add_global: bool = True
    """Whether the global feature is added to the slots (False: ablation)."""

    def __post_init__(self) -> None:
        kinds = (*SET_KINDS, PRECOMPUTED)
        _check_options(self, "set", kind=kinds, initial=INITIAL_SLOTS, update=SLOT_UPDATES)
        if self.kind == "pooled" and self.size != 1:
            raise OptionError(f"set.size is {self.size}; a pooled set has one element, size 1")


@dataclass(frozen=True)
class SimilarityConfig:
    """How two embedding sets are compared (Sec. 3.3)."""

    kind: str = "smooth_chamfer"
    alpha: float = 16.0
    """Scaling of smooth-Chamfer."""
    direction: str = "t2i"
    """scan: which side attends to the other, "t2i" or "i2t"."""
    attention: float = 9.0
    """scan, imram, naaf: lambda of the attention (scan: 9 for t2i, 4 for i2t; imram: 9 on
    Flickr30K, 11 on COCO; naaf: 20)."""
    sharpness: float = 6.0
    """scan: lambda 2 (Flickr30K: 6 and 5, COCO: 20)."""
    pooling: str = "lse"
    """scan: "lse" or "mean"."""
    steps: int = 3
    """imram: how often a query attends."""
    mode: str = "full"
    """imram: "text" (words attend to regions), "image" (regions to words), or "full", both."""
    inner_width: int | None = None
    """sgr, saf: width of a comparison, 256 by default; caan: width of its attention, 128."""
    max_regions: int = 36
    """sgr, saf: largest number of regions or cells of an image; each has its own batch norm."""
    dropout: float = 0.4
    """sgr, saf: dropout of the global vectors."""

    def __post_init__(self) -> None:
        options = {"direction": DIRECTIONS, "pooling": SCAN_POOLINGS, "mode": IMRAM_MODES}
        _check_options(self, "similarity", kind=SIMILARITY_KINDS, **options)


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
        _check_number("dim", self.dim)
        kind, sets = self.similarity.kind, (self.image_set.kind, self.text_set.kind)
        needs = {kind in CROSS_ATTENTION, *(of_side == "local" for of_side in sets)}
        if len(needs) > 1:
            raise OptionError(
                f"similarity.kind is {kind}, image_set.kind and text_set.kind are {sets[0]} and "
                f"{sets[1]}; cross-attention ({', '.join(CROSS_ATTENTION)}) and sets of kind local "
                "need each other"
            )


Config = TypeVar("Config")


def _check_options(config: Any, side: str, **choices: Sequence[str]) -> None:
    """Raise unless every text is one of its choices and every number is in its range."""
    for option in dataclasses.fields(config):
        name, value = f"{side}.{option.name}", getattr(config, option.name)
        if option.name in choices:
            check_choice(name, value, choices[option.name], optional=option.default is None)
        elif isinstance(value, int | float) and not isinstance(value, bool):
            _check_number(name, value)


def _check_number(name: str, value: float) -> None:
    """Raise unless a number is above 0 and so small that building the model comes to an end."""
    option = name.rpartition(".")[2]
    if option == "dropout":
        if not 0 <= value < 1:
            raise OptionError(f"{name} is {value}; a dropout rate lies in [0, 1)")
    elif option != "trainable_blocks":
        check_positive(name, value)
    limit = MAX_OPTIONS.get(option, MAX_NUMBER)
    if not abs(value) <= limit:
        raise OptionError(f"{name} is {value}; at most {limit:,} is supported")


def flat_options(config: Any, prefix: str = "") -> dict[str, Any]:
    """All options of nested dataclasses by their full names.

    >>> flat_options(ModelConfig(dim=64))["image_set.size"]
    4
    """
    options: dict[str, Any] = {}
    for option in dataclasses.fields(config):
        name, value = prefix + option.name, getattr(config, option.name)
        if dataclasses.is_dataclass(value):
            options |= flat_options(value, f"{name}.")
        else:
            options[name] = value
    return options


def non_default_options(config: Any) -> dict[str, Any]:
    """The options that differ from the defaults; a new option does not change the result.

    >>> non_default_options(ModelConfig(dim=64, image_set=SetConfig(size=2)))
    {'dim': 64, 'image_set': {'size': 2}}
    """
    options: dict[str, Any] = {}
    for option in dataclasses.fields(config):
        value, default = getattr(config, option.name), getattr(type(config)(), option.name)
        if value != default:
            nested = dataclasses.is_dataclass(value)
            options[option.name] = non_default_options(value) if nested else value
    return options


def from_dict(kind: type[Config], values: dict[str, Any], where: str = "") -> Config:
    """Nested dicts as a dataclass; unknown keys are rejected by name.

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
    options: dict[str, Any] = {}
    for key, value in values.items():
        if dataclasses.is_dataclass(hints[key]):
            options[key] = from_dict(hints[key], value, prefix + key)
        elif get_origin(hints[key]) is tuple:
            options[key] = _tuple_of(get_args(hints[key])[0], value, prefix + key)
        else:
            options[key] = _checked(prefix + key, value, hints[key])
    try:
        return kind(**options)
    except OptionError as error:
        message = str(error)
        if not (where.endswith("_set") and message.startswith("set.")):
            raise
        # A `SetConfig` is that of images or of texts, but its own checks say "set".
        raise OptionError(where + message.removeprefix("set")) from None


def _tuple_of(kind: Any, values: Any, name: str) -> tuple[Any, ...]:
    """A list of dicts as a tuple of dataclasses."""
    if not isinstance(values, list | tuple):
        raise OptionError(f"{name} is {values!r}; give a list")
    return tuple(from_dict(kind, value, f"{name}[{row}]") for row, value in enumerate(values))


def _checked(name: str, value: Any, expected: Any) -> Any:
    """The value if it has the expected type; a whole number counts as a float."""
    if value == "" and type(None) in get_args(expected):
        raise OptionError(f"{name} is ''; give a value, or null for none")
    if float in (expected, *get_args(expected)) and type(value) is int:
        try:
            return float(value)
        except OverflowError as error:
            raise OptionError(f"{name} is too large; give a number up to 1e308") from error
    if not isinstance(value, expected) or (expected is not bool and isinstance(value, bool)):
        kind = getattr(expected, "__name__", str(expected))
        raise OptionError(f"{name} is {value!r}; its type is {kind}")
    return value
