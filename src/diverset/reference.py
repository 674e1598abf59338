"""Reading checkpoints of the paper's released code (region features + bi-GRU).

Such a file is a pickle {args, epoch, best_score, model}. It is loaded with torch's restricted
loader, which admits tensors, plain containers and the argument namespace, and runs nothing else.
The four tied iterations are stored four times; they must be equal and are kept once.

It does not read models with a CNN or BERT inside: the released scripts train none.
"""

from __future__ import annotations

import argparse
import pickle
import re
from os import PathLike
from typing import Any

import numpy as np
import torch
from numpy._core.multiarray import scalar as numpy_scalar
from torch import Tensor

from diverset.config import ImageConfig, ModelConfig, SetConfig, SimilarityConfig, TextConfig
from diverset.data.vocabulary import Vocabulary
from diverset.errors import CheckpointError, OptionError, a_few
from diverset.model import Model
from diverset.pretrained import load_strictly

# Reference name -> our name, inside one set prediction module.
SET_NAMES = {
    "agg_block.latents": "slots",
    "agg_block.layers.0.0.norm_context": "input_norm",
    "agg_block.layers.0.0.fn.to_k": "to_keys",
    "agg_block.layers.0.0.fn.to_v": "to_values",
    "agg_block.layers.0.0.norm": "query_norm",
    "agg_block.layers.0.0.fn.to_q": "to_queries",
    "agg_block.layers.0.0.fn.to_out.0": "to_slots",
    "agg_block.layers.0.2.norm": "mlp.0",
    "agg_block.layers.0.2.fn.net.0": "mlp.1",
    "agg_block.layers.0.2.fn.net.3": "mlp.4",
    "agg_block.last_layer.0": "slot_norm",
    "residual_norm": "global_norm",
}
IMAGE_NAMES = {
    "fc": "fc",
    "mlp.fc1": "mlp.0",
    "mlp.bn.bn": "mlp.1",
    "mlp.bn": "mlp.1",
    "mlp.fc2": "mlp.3",
}
TEXT_NAMES = {"embed": "embedding", "rnn": "gru"}
NEEDED = tuple(
    f"{side}_encoder.{name}"
    for side, names in {
        "image": ("features.fc.weight", "features.fc.bias"),
        "text": ("features.embedding.weight",),
    }.items()
    for name in (
        *names, "sets.slots", "sets.to_queries.weight", "sets.to_keys.weight", "sets.mlp.1.weight",
        "sets.mlp.4.weight",
    )
)  # fmt: skip
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
"""Arguments that change what the weights mean, and the values that are understood."""
MASK = "<mask>"
# Scores that were saved as numpy numbers: data, not code.
NUMPY_NUMBERS: list[Any] = [
    numpy_scalar,
    np.dtype,
    *(type(np.dtype(kind)) for kind in ("float32", "float64", "int32", "int64")),
]
TIED = re.compile(r"(.*agg_block\.layers\.)(\d+)(\..*)")


def load_reference(
    checkpoint: str | PathLike[str],
    vocabulary: Vocabulary | str | PathLike[str] | None,
    heads: int = 4,
) -> Model:
    """The model of a released-code checkpoint, in evaluation mode."""
    content = _read(checkpoint)
    args = content.get("args") or {}
    args = dict(vars(args)) if isinstance(args, argparse.Namespace) else dict(args)
    state, iterations = _untied(content["model"], str(checkpoint))
    tensors = _renamed(state, str(checkpoint))
    architecture = _architecture(tensors, iterations, heads, args, str(checkpoint))
    if vocabulary is not None:
        words = architecture.text.vocabulary_size
        vocabulary = _vocabulary(vocabulary, words, str(checkpoint))
    model = Model(architecture, vocabulary)
    load_strictly(model, tensors, str(checkpoint))
    return model.eval()


def _vocabulary(given: Vocabulary | str | PathLike[str], words: int, source: str) -> Vocabulary:
    """The vocabulary of a checkpoint; the released code adds `<mask>` after reading the file."""
    if not isinstance(given, Vocabulary | str | PathLike):
        raise OptionError(f"vocabulary is a {type(given).__name__}; give a file or a Vocabulary")
    found = given if isinstance(given, Vocabulary) else Vocabulary.load(str(given))
    if len(found) == words - 1 and MASK not in found:
        found = Vocabulary([*found, MASK])
    if len(found) != words:
        raise CheckpointError(
            f"{source} was trained with {words} words, the vocabulary has {len(found)}; give the "
            "vocabulary it was trained with"
        )
    return found


def _read(checkpoint: str | PathLike[str]) -> dict[str, Any]:
    try:
        with torch.serialization.safe_globals([argparse.Namespace, *NUMPY_NUMBERS]):
            content = torch.load(checkpoint, map_location="cpu", weights_only=True)
    except OSError as error:
        raise CheckpointError(f"cannot read {checkpoint}: {error.strerror}") from error
    except pickle.UnpicklingError as error:
        raise CheckpointError(
            f"{checkpoint} asks for more than tensors, numbers and arguments, or is damaged; "
            "nothing of it was run. Get it again, or save only its 'model' and 'args'"
        ) from error
    except (
        RuntimeError, EOFError, ValueError, LookupError, AttributeError, TypeError,
    ) as error:  # fmt: skip
        raise CheckpointError(
            f"{checkpoint} is truncated or not a torch checkpoint; get it again ({error})"
        ) from error
    if not isinstance(content, dict) or not isinstance(content.get("model"), dict):
        raise CheckpointError(
            f"{checkpoint} has no 'model' entry; a checkpoint of the released code holds "
            "args, epoch, best_score and model"
        )
    return content


def _untied(state: dict[str, Any], source: str) -> tuple[dict[str, Tensor], dict[str, int]]:
    """One copy of the iterations' shared weights, and how many iterations each side has."""
    kept: dict[str, Tensor] = {}
    seen: dict[str, set[int]] = {"img_enc": set(), "txt_enc": set()}
    for name, tensor in state.items():
        if not isinstance(name, str) or not isinstance(tensor, Tensor):
            raise CheckpointError(f"{name!r} in {source} is a {type(tensor).__name__}, no weight")
        if tensor.is_floating_point() and not tensor.isfinite().all():
            raise CheckpointError(f"{name} in {source} holds NaN or infinity; its training failed")
        name = name.removeprefix("module.")
        tied = TIED.fullmatch(name)
        if tied:
            seen.setdefault(name.split(".")[0], set()).add(int(tied[2]))
            name = f"{tied[1]}0{tied[3]}"
        if name not in kept:
            kept[name] = tensor
        elif not torch.equal(kept[name], tensor):
            raise CheckpointError(
                f"the iterations in {source} do not share {name}; only models trained with "
                "shared weights can be read"
            )
    for side, numbers in seen.items():
        if numbers != set(range(len(numbers))):
            raise CheckpointError(
                f"{source} has the iterations {sorted(numbers)} in {side}; some are missing"
            )
    return kept, {"image": len(seen["img_enc"]), "text": len(seen["txt_enc"])}


def _renamed(state: dict[str, Tensor], source: str) -> dict[str, Tensor]:
    found: dict[str, Tensor] = {}
    foreign: list[str] = []
    for name, tensor in state.items():
        ours = _our_name(name)
        if ours is None:
            foreign.append(name)
        else:
            found[ours] = tensor
    batches = "image_encoder.features.mlp.1.num_batches_tracked"
    found.setdefault(batches, torch.tensor(0))  # files of old torch versions lack it
    needed = {
        name
        for name in NEEDED
        if name not in found or found[name].ndim != (1 if name.endswith("bias") else 2)
    }
    if foreign or needed:
        raise CheckpointError(
            f"{source} is not a region + bi-GRU model of the released code: it has "
            f"{a_few(foreign) or 'no foreign weights'} and lacks "
            f"{a_few(sorted(needed)) or 'nothing'}"
        )
    return found


def _our_name(name: str) -> str | None:
    for prefix, ours, names in (
        ("img_enc.spm.", "image_encoder.sets.", SET_NAMES),
        ("txt_enc.spm.", "text_encoder.sets.", SET_NAMES),
        ("img_enc.", "image_encoder.features.", IMAGE_NAMES),
        ("txt_enc.", "text_encoder.features.", TEXT_NAMES),
    ):
        if not name.startswith(prefix):
            continue
        rest = name.removeprefix(prefix)
        for theirs, mine in names.items():
            if rest == theirs or rest.startswith(theirs + "."):
                return ours + mine + rest.removeprefix(theirs)
    return None


def _architecture(
    tensors: dict[str, Tensor],
    iterations: dict[str, int],
    heads: int,
    args: dict[str, Any],
    source: str,
) -> ModelConfig:
    """Sizes from the weights' shapes; similarity, pooling and positions from the arguments."""
    _refuse_unsupported(tensors, args, source)
    dim, region_width = tensors["image_encoder.features.fc.weight"].shape
    words, word_width = tensors["text_encoder.features.embedding.weight"].shape
    dropout = _number(args, "dropout", 0.1, source)
    if not isinstance(heads, int):
        raise OptionError(f"heads is {heads!r}; give a whole number (released code: 4)")
    sets = {}
    for side in ("image", "text"):
        inner = len(tensors[f"{side}_encoder.sets.to_queries.weight"])
        if heads < 1 or inner % heads:
            raise OptionError(f"heads is {heads}, which does not divide the inner width {inner}")
        sets[side] = SetConfig(
            size=len(tensors[f"{side}_encoder.sets.slots"]),
            iterations=iterations[side],
            heads=heads,
            inner_width=inner,
            mlp_factor=len(tensors[f"{side}_encoder.sets.mlp.1.weight"]) / dim,
            dropout=dropout,
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
        ),
        image_set=sets["image"],
        text_set=sets["text"],
        similarity=SimilarityConfig(
            kind=SIMILARITIES.get(_similarity(args), "smooth_chamfer"),
            alpha=_number(args, "temperature", 16.0, source),
        ),
    )


def _similarity(args: dict[str, Any]) -> str:
    return str(args.get("eval_similarity") or args.get("loss") or "smooth_chamfer")


def _refuse_unsupported(tensors: dict[str, Tensor], args: dict[str, Any], source: str) -> None:
    """Stop at arguments under which the weights would mean something else here."""
    for name, known in SUPPORTED.items():
        if args.get(name) not in (None, *known):
            raise CheckpointError(
                f"{source} was trained with {name} = {args[name]!r}, which is not supported; "
                f"supported: {', '.join(map(str, known))}"
            )
    for side in ("image", "text"):
        first = tensors[f"{side}_encoder.sets.mlp.1.weight"]
        second = tensors[f"{side}_encoder.sets.mlp.4.weight"]
        if len(first) != second.shape[1]:
            raise CheckpointError(
                f"the MLP in {source} widens to {len(first)} and reads {second.shape[1]}: a gated "
                "activation, which is not supported"
            )


def _number(args: dict[str, Any], name: str, default: float, source: str) -> float:
    value = args.get(name)
    if value is None:
        return default
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise CheckpointError(f"{name} in the arguments of {source} is {value!r}, not a number")
    return float(value)
