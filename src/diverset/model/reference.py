"""Checkpoints of the paper's released code (region features + bi-GRU).

Such a file is a pickle {args, epoch, best_score, model}. torch's restricted loader admits tensors,
plain containers and the argument namespace, and runs nothing else. The weights shared by the
iterations are stored once per iteration; they must be equal and are kept once. Sets are slots or
those of PVSE. Models with a CNN or BERT inside are not supported: the released scripts train none.
"""

from __future__ import annotations

import argparse
import pickle
import re
from os import PathLike
from typing import Any

import numpy as np
import torch
from torch import Tensor

from diverset.data.vocabulary import Vocabulary
from diverset.errors import CheckpointError, OptionError, a_few
from diverset.model.pretrained import SavedModel
from diverset.model.reference_config import reference_config

# Name in the released code -> our name, within a set prediction module.
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
PIE_NET_NAMES = {
    "attention.w_1": "attention.hidden",
    "attention.w_2": "attention.scores",
    "fc": "fc",
    "layer_norm": "norm",
}
IMAGE_NAMES = {
    "fc": "fc",
    "mlp.fc1": "mlp.0",
    "mlp.bn.bn": "mlp.1",
    "mlp.bn": "mlp.1",
    "mlp.fc2": "mlp.3",
}
TEXT_NAMES = {"embed": "embedding", "rnn": "gru"}
SETS = {"slots": SET_NAMES, "pie_net": PIE_NET_NAMES}
# Matrices of a set module whose shapes determine its configuration.
SET_MATRICES = {
    "slots": ("slots", "to_queries.weight", "to_keys.weight", "mlp.1.weight", "mlp.4.weight"),
    "pie_net": ("attention.hidden.weight", "attention.scores.weight", "fc.weight"),
}
# The number of dimensions of the other weights whose shapes determine the configuration.
REQUIRED = {
    "image_encoder.features.fc.weight": 2,
    "image_encoder.features.fc.bias": 1,
    "text_encoder.features.embedding.weight": 2,
    "text_encoder.features.gru.weight_hh_l0": 2,
}
PIE_NET = re.compile(r"(img|txt)_enc\.spm\.attention\.w_[12]\.weight")
NETWORKS = {
    "img_enc.cnn.": "a CNN; export its region features and train on them",
    "img_enc.pie_net.": "the encoder of PVSE's own code, which contains a CNN",
    "txt_enc.bert.": "BERT",
}
BATCH_COUNT = "image_encoder.features.mlp.1.num_batches_tracked"
EMBEDDING = "text_encoder.features.embedding.weight"
MASK = "<mask>"
ITERATION = re.compile(r"(.*agg_block\.layers\.)(\d+)(\..*)")
_SCALAR: Any = np.float64(0).__reduce__()[0]  # how numpy pickles a number
# Scores that were saved as numpy numbers; the module of `scalar` differs between numpy 1 and 2.
NUMPY_NUMBERS: list[Any] = [
    *((_SCALAR, f"numpy.{core}.multiarray.scalar") for core in ("core", "_core")),
    np.dtype,
    *(type(np.dtype(kind)) for kind in ("float32", "float64", "int32", "int64")),
]


def read_reference(
    checkpoint: str | PathLike[str],
    vocabulary: Vocabulary | str | PathLike[str] | None = None,
    heads: int = 4,
) -> SavedModel:
    """Configuration, weights under our names, and vocabulary of a checkpoint."""
    source = str(checkpoint)
    content = _unpickle(checkpoint)
    args = content.get("args") or {}
    args = dict(vars(args)) if isinstance(args, argparse.Namespace) else dict(args)
    weights, iterations = _merge_iterations(content["model"], source)
    kind = "pie_net" if any(PIE_NET.fullmatch(name) for name in weights) else "slots"
    tensors = _rename(weights, kind, source)
    config = reference_config(tensors, kind, iterations, heads, args, source)
    if vocabulary is not None:
        vocabulary = _fit_vocabulary(vocabulary, len(tensors[EMBEDDING]), source)
    return SavedModel(config, tensors, vocabulary)


def _unpickle(checkpoint: str | PathLike[str]) -> dict[str, Any]:
    try:
        with torch.serialization.safe_globals([argparse.Namespace, *NUMPY_NUMBERS]):
            content = torch.load(checkpoint, map_location="cpu", weights_only=True)
    except OSError as error:
        raise CheckpointError(f"cannot read {checkpoint}: {error.strerror}; check it") from error
    except pickle.UnpicklingError as error:
        raise CheckpointError(
            f"{checkpoint} is damaged or contains more than tensors, numbers and arguments; none "
            "of its code was run. Download it again, or save only its 'model' and 'args'"
        ) from error
    except (
        RuntimeError, EOFError, ValueError, LookupError, AttributeError, TypeError,
    ) as error:  # fmt: skip
        raise CheckpointError(
            f"{checkpoint} is truncated or not a torch checkpoint; download it again ({error})"
        ) from error
    if not isinstance(content, dict) or not isinstance(content.get("model"), dict):
        raise CheckpointError(
            f"{checkpoint} has no 'model' entry; a checkpoint of the released code holds "
            "args, epoch, best_score and model"
        )
    return content


def _merge_iterations(
    state: dict[str, Any], source: str
) -> tuple[dict[str, Tensor], dict[str, int]]:
    """The weights with one copy of those shared by iterations, and each side's iterations."""
    weights: dict[str, Tensor] = {}
    iterations: dict[str, set[int]] = {"img_enc": set(), "txt_enc": set()}
    for name, tensor in state.items():
        if not isinstance(name, str) or not isinstance(tensor, Tensor):
            raise CheckpointError(
                f"{name!r} in {source} is a {type(tensor).__name__}; give a file whose 'model' "
                "holds tensors only"
            )
        if tensor.is_floating_point() and not tensor.isfinite().all():
            raise CheckpointError(f"{name} in {source} holds NaN or infinity; its training failed")
        name = name.removeprefix("module.")
        if match := ITERATION.fullmatch(name):
            iterations.setdefault(name.split(".")[0], set()).add(int(match[2]))
            name = f"{match[1]}0{match[3]}"
        if not torch.equal(weights.setdefault(name, tensor), tensor):
            raise CheckpointError(
                f"the iterations in {source} do not share {name}; only models trained with "
                "shared weights are supported"
            )
    for side, numbers in iterations.items():
        if numbers != set(range(len(numbers))):
            raise CheckpointError(
                f"{source} has the iterations {sorted(numbers)} in {side}; some are missing"
            )
    return weights, {"image": len(iterations["img_enc"]), "text": len(iterations["txt_enc"])}


def _rename(weights: dict[str, Tensor], kind: str, source: str) -> dict[str, Tensor]:
    for prefix, network in NETWORKS.items():
        if any(name.startswith(prefix) for name in weights):
            raise CheckpointError(
                f"{source} contains {network}; only models of region features and a bi-GRU are "
                "supported"
            )
    names = {name: _our_name(name, kind) for name in weights}
    unexpected = [name for name, ours in names.items() if ours is None]
    tensors = {ours: weights[name] for name, ours in names.items() if ours is not None}
    tensors.setdefault(BATCH_COUNT, torch.tensor(0))  # files of old torch versions lack it
    required = REQUIRED | {
        f"{side}_encoder.sets.{name}": 2
        for side in ("image", "text")
        for name in SET_MATRICES[kind]
    }
    missing = [
        name for name, dims in required.items() if name not in tensors or tensors[name].ndim != dims
    ]
    if unexpected or missing:
        raise CheckpointError(
            f"{source} is not a region + bi-GRU model of the released code: missing or misshapen "
            f"keys {a_few(missing) or 'none'}; unexpected keys {a_few(unexpected) or 'none'}"
        )
    return tensors


def _our_name(name: str, kind: str) -> str | None:
    prefixes = (
        ("img_enc.spm.", "image_encoder.sets.", SETS[kind]),
        ("txt_enc.spm.", "text_encoder.sets.", SETS[kind]),
        ("img_enc.", "image_encoder.features.", IMAGE_NAMES),
        ("txt_enc.", "text_encoder.features.", TEXT_NAMES),
    )
    for prefix, our_prefix, names in prefixes:
        if not name.startswith(prefix):
            continue
        rest = name.removeprefix(prefix)
        for theirs, ours in names.items():
            if rest == theirs or rest.startswith(theirs + "."):
                return our_prefix + ours + rest.removeprefix(theirs)
    return None


def _fit_vocabulary(
    vocabulary: Vocabulary | str | PathLike[str], size: int, source: str
) -> Vocabulary:
    """The vocabulary of a checkpoint; the released code adds `<mask>` after reading the file."""
    if not isinstance(vocabulary, Vocabulary | str | PathLike):
        raise OptionError(
            f"vocabulary is a {type(vocabulary).__name__}; give a file or a Vocabulary"
        )
    if not isinstance(vocabulary, Vocabulary):
        vocabulary = Vocabulary.load(str(vocabulary))
    if len(vocabulary) == size - 1 and MASK not in vocabulary:
        vocabulary = Vocabulary([*vocabulary, MASK])
    if len(vocabulary) != size:
        raise CheckpointError(
            f"{source} was trained with {size} words, the vocabulary has {len(vocabulary)}; give "
            "the vocabulary it was trained with"
        )
    return vocabulary
