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

import torch
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
TIED = re.compile(r"(.*agg_block\.layers\.)(\d+)(\..*)")


def load_reference(
    checkpoint: str | PathLike[str],
    vocabulary: Vocabulary | str | PathLike[str] | None,
    heads: int = 4,
) -> Model:
    """The model of a released-code checkpoint, in evaluation mode."""
    content = _read(checkpoint)
    args = vars(content["args"]) if isinstance(content.get("args"), argparse.Namespace) else {}
    state, iterations = _untied(content["model"], str(checkpoint))
    if vocabulary is not None and not isinstance(vocabulary, Vocabulary):
        vocabulary = Vocabulary.load(str(vocabulary))
    tensors = _renamed(state, str(checkpoint))
    architecture = _architecture(tensors, iterations, heads, args)
    if vocabulary is not None and len(vocabulary) != architecture.text.vocabulary_size:
        raise CheckpointError(
            f"{checkpoint} was trained with {architecture.text.vocabulary_size} words, the "
            f"vocabulary has {len(vocabulary)}; give the vocabulary it was trained with"
        )
    model = Model(architecture, vocabulary)
    load_strictly(model, tensors, str(checkpoint))
    return model.eval()


def _read(checkpoint: str | PathLike[str]) -> dict[str, Any]:
    try:
        with torch.serialization.safe_globals([argparse.Namespace]):
            content = torch.load(checkpoint, map_location="cpu", weights_only=True)
    except OSError as error:
        raise CheckpointError(f"cannot read {checkpoint}: {error.strerror}") from error
    except pickle.UnpicklingError as error:
        reason = str(error).splitlines()[0]
        raise CheckpointError(
            f"{checkpoint} asks for more than tensors and arguments, or is damaged; nothing of it "
            f"was run ({reason})"
        ) from error
    except (RuntimeError, EOFError, ValueError, KeyError, AttributeError) as error:
        raise CheckpointError(
            f"{checkpoint} is truncated or not a torch checkpoint; get it again ({error})"
        ) from error
    if not isinstance(content, dict) or not isinstance(content.get("model"), dict):
        raise CheckpointError(
            f"{checkpoint} has no 'model' entry; a checkpoint of the released code holds "
            "args, epoch, best_score and model"
        )
    return content


def _untied(state: dict[str, Any], source: str) -> tuple[dict[str, Tensor], int]:
    """One copy of the iterations' shared weights, and how many iterations there are."""
    kept: dict[str, Tensor] = {}
    iterations = 0
    for name, tensor in state.items():
        if not isinstance(tensor, Tensor):
            raise CheckpointError(f"{name} in {source} is a {type(tensor).__name__}, not a tensor")
        name = name.removeprefix("module.")
        tied = TIED.fullmatch(name)
        if tied:
            iterations = max(iterations, int(tied[2]) + 1)
            name = f"{tied[1]}0{tied[3]}"
        if name not in kept:
            kept[name] = tensor
        elif not torch.equal(kept[name], tensor):
            raise CheckpointError(
                f"the iterations in {source} do not share {name}; only models trained with "
                "shared weights can be read"
            )
    return kept, iterations


def _renamed(state: dict[str, Tensor], source: str) -> dict[str, Tensor]:
    found: dict[str, Tensor] = {}
    foreign: list[str] = []
    for name, tensor in state.items():
        ours = _our_name(name)
        if ours is None:
            foreign.append(name)
        else:
            found[ours] = tensor
    needed = {
        "image_encoder.features.fc.weight",
        "text_encoder.features.embedding.weight",
        "image_encoder.sets.slots",
        "text_encoder.sets.slots",
    }
    if foreign or not needed <= set(found):
        raise CheckpointError(
            f"{source} is not a region + bi-GRU model of the released code: it has "
            f"{a_few(foreign) or 'no foreign weights'} and lacks "
            f"{a_few(sorted(needed - set(found))) or 'nothing'}"
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
    tensors: dict[str, Tensor], iterations: int, heads: int, args: dict[str, Any]
) -> ModelConfig:
    """Sizes from the weights' shapes; alpha and positions from the arguments."""
    dim, region_width = tensors["image_encoder.features.fc.weight"].shape
    words, word_width = tensors["text_encoder.features.embedding.weight"].shape
    dropout = float(args.get("dropout", 0.1))
    sets = {}
    for side in ("image", "text"):
        inner = len(tensors[f"{side}_encoder.sets.to_queries.weight"])
        if heads < 1 or inner % heads:
            raise OptionError(f"heads is {heads}, which does not divide the inner width {inner}")
        sets[side] = SetConfig(
            size=len(tensors[f"{side}_encoder.sets.slots"]),
            iterations=iterations,
            heads=heads,
            inner_width=inner,
            mlp_factor=len(tensors[f"{side}_encoder.sets.mlp.1.weight"]) / dim,
            dropout=dropout,
        )
    return ModelConfig(
        dim=dim,
        image=ImageConfig(kind="regions", input_width=region_width, dropout=dropout),
        text=TextConfig(
            kind="bigru",
            vocabulary_size=words,
            input_width=word_width,
            dropout=dropout,
            positions=args.get("spm_txt_pos_enc_type", "sine") != "none",
        ),
        image_set=sets["image"],
        text_set=sets["text"],
        similarity=SimilarityConfig(alpha=float(args.get("temperature", 16.0))),
    )
