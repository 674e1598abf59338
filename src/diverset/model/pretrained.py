"""Reading and writing the folder of a model: config.json, weights, vocabulary, model card."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from os import PathLike
from pathlib import Path

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save
from torch import Tensor

from diverset.config import ModelConfig, from_dict, non_default_options
from diverset.data.vocabulary import Vocabulary
from diverset.errors import CheckpointError, OptionError
from diverset.model.folder import CARD, CONFIG, FORMAT, VOCABULARY, WEIGHTS, read_config
from diverset.runtime.files import write_durably, write_json
from diverset.runtime.weights import weight_hash


@dataclass(frozen=True)
class SavedModel:
    """What a model is built from.

    Attributes:
        config: its architecture.
        tensors: its weights by name.
        vocabulary: of a bi-GRU.
        fingerprint: of configuration and weights, once they are float32; None where unknown.
        frozen_backbones: fingerprints of the frozen backbones, by "image" and "text".
    """

    config: ModelConfig
    tensors: dict[str, Tensor]
    vocabulary: Vocabulary | None = None
    fingerprint: str | None = None
    frozen_backbones: dict[str, str] = field(default_factory=dict)


def write_folder(folder: str | PathLike[str], saved: SavedModel, card: str | None = None) -> None:
    """Write a model; the folder is created if it does not exist."""
    path = Path(folder)
    path.mkdir(parents=True, exist_ok=True)
    content = {
        "format": FORMAT,
        "fingerprint": model_fingerprint(saved.config, saved.tensors, torch.float32),
        "model": asdict(saved.config),
        "frozen_backbones": saved.frozen_backbones,
    }
    write_durably(path / WEIGHTS, save(saved.tensors))
    if saved.vocabulary is not None:
        saved.vocabulary.save(path / VOCABULARY)
    (path / CARD).write_text(card or _default_card(saved), encoding="utf-8")
    # Last, because a folder with a config counts as a complete model.
    write_json(path / CONFIG, content)


def read_folder(folder: str | PathLike[str]) -> SavedModel:
    """Read what `write_folder` wrote; nothing is unpickled."""
    path = Path(folder)
    content = read_config(path)
    try:
        tensors = load_file(path / WEIGHTS)
    except FileNotFoundError as error:
        raise CheckpointError(
            f"{path} has no {WEIGHTS}; the model is incomplete, save it again"
        ) from error
    except SafetensorError as error:
        raise CheckpointError(
            f"{path / WEIGHTS} is damaged ({error}); copy or save it again"
        ) from error
    words = path / VOCABULARY
    return SavedModel(
        config=from_dict(ModelConfig, content["model"]),
        tensors=tensors,
        vocabulary=Vocabulary.load(words) if words.exists() else None,
        fingerprint=content["fingerprint"],
        frozen_backbones=content.get("frozen_backbones", {}),
    )


def model_fingerprint(
    config: ModelConfig, tensors: Mapping[str, Tensor], dtype: torch.dtype | None = None
) -> str:
    """Sixteen hexadecimal digits that identify a configuration and its weights, in `dtype`."""
    return weight_hash(tensors, json.dumps(non_default_options(config), sort_keys=True), dtype)


def narrow(name: str, tensor: Tensor, dtype: torch.dtype | None) -> Tensor:
    """A weight in fewer bits, unless it overflows; None keeps its type."""
    if dtype is None or not tensor.is_floating_point():
        return tensor.contiguous()
    result = tensor.contiguous().to(dtype)
    if not result.isfinite().all():
        raise OptionError(f"{name} overflows in {dtype}; save it as bfloat16 or float32")
    return result


def _default_card(saved: SavedModel) -> str:
    config = saved.config
    count = sum(tensor.numel() for tensor in saved.tensors.values())
    return (
        "---\nlibrary_name: diverset\npipeline_tag: feature-extraction\n---\n"
        "# A diverset model\n\n"
        f"Images: {config.image.kind}. Texts: {config.text.kind}. Embedding sets of "
        f"{config.image_set.size} and {config.text_set.size} elements ({config.image_set.kind}) "
        f"with {config.dim} dimensions, compared by {config.similarity.kind}; {count:,} "
        "parameters.\n\n"
        "Load it with `diverset.Model.from_pretrained`. Training data and results: not recorded.\n"
    )
