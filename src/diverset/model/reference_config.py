"""The configuration of a released-code checkpoint: sizes from its weights, the rest from its
arguments. Arguments that would give the weights another meaning are rejected."""

from __future__ import annotations

from typing import Any

from torch import Tensor

from diverset.config import ImageConfig, ModelConfig, SetConfig, SimilarityConfig, TextConfig
from diverset.errors import CheckpointError, OptionError

SIMILARITIES = {
    "smooth_chamfer": "smooth_chamfer",
    "chamfer": "chamfer",
    "max": "mil",
    "mil": "mil",
}
SUPPORTED: dict[str, tuple[object, ...]] = {
    "eval_similarity": tuple(SIMILARITIES),
    "img_res_pool": ("max", "avg"),
    "txt_pooling": ("rnn",),
    "temperature_txt_scale": (1, 1.0),
    "denominator": (2, 2.0),
    "spm_img_pos_enc_type": ("none",),
    "spm_txt_pos_enc_type": ("none", "sine"),
}
"""Arguments that change the meaning of the weights, and their supported values."""


def reference_config(
    tensors: dict[str, Tensor],
    kind: str,
    iterations: dict[str, int],
    heads: int,
    args: dict[str, Any],
    source: str,
) -> ModelConfig:
    """The configuration that the weights and training arguments of a checkpoint imply."""
    _reject_unsupported(args, source)
    dim, region_width = tensors["image_encoder.features.fc.weight"].shape
    words, word_width = tensors["text_encoder.features.embedding.weight"].shape
    dropout = _number(args, "dropout", 0.1, source)
    similarity = str(args.get("eval_similarity") or args.get("loss") or "smooth_chamfer")
    if kind == "pie_net":  # without dropout on images
        image_set = _pie_net_config(tensors, "image", dim, 0.0, source)
        text_set = _pie_net_config(tensors, "text", word_width, dropout, source)
    else:
        image_set, text_set = (
            _slots_config(tensors, side, count, heads, dropout, source)
            for side, count in iterations.items()
        )
    return ModelConfig(
        dim=dim,
        image=ImageConfig(
            kind="regions",
            input_width=region_width,
            dropout=dropout,
            pooling="average" if args.get("img_res_pool") == "avg" else "max",
        ),
        text=TextConfig(
            kind="bigru",
            vocabulary_size=words,
            input_width=word_width,
            dropout=dropout,
            positions=args.get("spm_txt_pos_enc_type", "sine") != "none",
            merge=_merge(tensors, dim, source),
        ),
        image_set=image_set,
        text_set=text_set,
        similarity=SimilarityConfig(
            kind=SIMILARITIES.get(similarity, "smooth_chamfer"),
            alpha=_number(args, "temperature", 16.0, source),
        ),
    )


def _merge(tensors: dict[str, Tensor], dim: int, source: str) -> str:
    """How the directions of the GRU are merged, from its hidden width."""
    hidden = tensors["text_encoder.features.gru.weight_hh_l0"].shape[1]
    if hidden == dim:
        return "mean"
    if 2 * hidden == dim:
        return "concatenate"
    raise CheckpointError(
        f"the GRU in {source} has {hidden} hidden units and the model is {dim} wide; supported "
        f"are {dim} (mean of both directions) and half of it (concatenated)"
    )


def _slots_config(
    tensors: dict[str, Tensor], side: str, iterations: int, heads: int, dropout: float, source: str
) -> SetConfig:
    prefix = f"{side}_encoder.sets."
    size, dim = tensors[prefix + "slots"].shape
    inner = len(tensors[prefix + "to_queries.weight"])
    if not isinstance(heads, int):
        raise OptionError(f"heads is {heads!r}; give a whole number (released code: 4)")
    if heads < 1 or inner % heads:
        raise OptionError(f"heads is {heads}; give a divisor of the inner width {inner}")
    first, second = tensors[prefix + "mlp.1.weight"], tensors[prefix + "mlp.4.weight"]
    if len(first) != second.shape[1]:
        raise CheckpointError(
            f"the MLP in {source} expands to {len(first)} and reads {second.shape[1]}; only "
            "models without gated activations are supported"
        )
    return SetConfig(
        size=size,
        iterations=iterations,
        heads=heads,
        inner_width=inner,
        mlp_factor=len(first) / dim,
        dropout=dropout,
    )


def _pie_net_config(
    tensors: dict[str, Tensor], side: str, width: int, dropout: float, source: str
) -> SetConfig:
    hidden, inputs = tensors[f"{side}_encoder.sets.attention.hidden.weight"].shape
    if (hidden, inputs) != (width // 2, width):
        raise CheckpointError(
            f"the attention over the {side} in {source} reads {inputs} and has {hidden} hidden "
            f"units; supported are {width} and {width // 2}"
        )
    size = len(tensors[f"{side}_encoder.sets.attention.scores.weight"])
    return SetConfig(kind="pie_net", size=size, dropout=dropout)


def _reject_unsupported(args: dict[str, Any], source: str) -> None:
    for name, supported in SUPPORTED.items():
        if args.get(name) not in (None, *supported):
            raise CheckpointError(
                f"{source} was trained with {name} = {args[name]!r}, which is not supported; "
                f"supported: {', '.join(map(str, supported))}"
            )


def _number(args: dict[str, Any], name: str, default: float, source: str) -> float:
    value = args.get(name)
    if value is None:
        return default
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise CheckpointError(
            f"{name} in the arguments of {source} is {value!r}; it must be a number"
        )
    return float(value)
