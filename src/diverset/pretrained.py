"""A model as a folder: config.json, model.safetensors, vocabulary.json, README.md (model card).

Loading is strict: a weight that is missing, left over or of another shape is an error, and so is
an option that this version does not know. Frozen networks are not stored, but their fingerprints
are where they were at hand, and those that are installed have to agree. Nothing is unpickled.
"""

from __future__ import annotations

import json
from copy import deepcopy
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import Tensor, nn

from diverset.config import ModelConfig, from_dict, to_dict
from diverset.data.vocabulary import Vocabulary
from diverset.errors import CheckpointError, OptionError, a_few

if TYPE_CHECKING:
    from diverset.model import Model

FORMAT = 1
CONFIG, WEIGHTS, VOCABULARY, CARD = (
    "config.json",
    "model.safetensors",
    "vocabulary.json",
    "README.md",
)


def save_pretrained(
    model: Model,
    folder: str | PathLike[str],
    card: str | None = None,
    dtype: torch.dtype | None = None,
) -> None:
    """Write a model; the folder is made where it does not exist.

    `dtype` stores numbers in fewer bits. They are read as float32 again, so what is written, its
    fingerprint included, is the model with rounded weights.
    """
    path = Path(folder)
    path.mkdir(parents=True, exist_ok=True)
    tensors = {name: tensor.detach().contiguous() for name, tensor in model.state_dict().items()}
    if dtype is not None:
        tensors = {name: _narrowed(name, one, dtype) for name, one in tensors.items()}
        model = deepcopy(model).float()
        model.load_state_dict(tensors)
    save_file(tensors, path / WEIGHTS)
    if model.vocabulary is not None:
        model.vocabulary.save(path / VOCABULARY)
    (path / CARD).write_text(card or _plain_card(model), encoding="utf-8")
    # Last, because a folder with a config is taken for a complete model.
    content = {
        "format": FORMAT,
        "fingerprint": model.fingerprint(),
        "model": to_dict(model.architecture),
    }
    below = model.below()
    if below:
        content["below"] = below
    (path / CONFIG).write_text(json.dumps(content, indent=2) + "\n", encoding="utf-8")


def load_pretrained(folder: str | PathLike[str]) -> Model:
    """Read a model that `save_pretrained` wrote, in evaluation mode."""
    from diverset.model import Model

    path = Path(folder)
    content = _read_config(path)
    words = path / VOCABULARY
    vocabulary = Vocabulary.load(words) if words.exists() else None
    model = Model(from_dict(ModelConfig, content["model"]), vocabulary)
    try:
        tensors = load_file(path / WEIGHTS)
    except FileNotFoundError as error:
        raise CheckpointError(
            f"{path} has no {WEIGHTS}; it is not a complete model, save it again"
        ) from error
    except SafetensorError as error:
        raise CheckpointError(
            f"{path / WEIGHTS} is damaged ({error}); copy or save it again"
        ) from error
    load_strictly(model, tensors, str(path / WEIGHTS))
    if model.fingerprint() != content["fingerprint"]:
        raise CheckpointError(
            f"the weights in {path} are not those its {CONFIG} was written for "
            f"({model.fingerprint()}, not {content['fingerprint']}); copy the folder as a whole"
        )
    model.trained_over = content.get("below", {})
    if not model.trained_over.keys() >= model.below().keys():
        raise CheckpointError(
            f"{path / CONFIG} does not say over which networks its blocks were trained; save the "
            "model again"
        )
    return model.eval()


def _narrowed(name: str, tensor: Tensor, dtype: torch.dtype) -> Tensor:
    if not tensor.is_floating_point():
        return tensor
    found = tensor.to(dtype)
    if not found.isfinite().all():
        raise OptionError(f"{name} does not fit into {dtype}; save it as bfloat16 or float32")
    return found


def load_strictly(module: nn.Module, tensors: dict[str, Tensor], source: str) -> None:
    """Copy weights into a module; every name and every shape must agree."""
    wanted = module.state_dict()
    missing = sorted(set(wanted) - set(tensors))
    extra = sorted(set(tensors) - set(wanted))
    if missing or extra:
        raise CheckpointError(
            f"{source} is of another model: it lacks {a_few(missing) or 'nothing'} and has "
            f"{a_few(extra) or 'nothing'} too much; check the architecture it was trained with"
        )
    for name, tensor in tensors.items():
        if tensor.shape != wanted[name].shape:
            raise CheckpointError(
                f"{name} in {source} has shape {tuple(tensor.shape)}, the model "
                f"{tuple(wanted[name].shape)}; check the architecture it was trained with"
            )
    module.load_state_dict(tensors)


def _read_config(path: Path) -> dict[str, Any]:
    try:
        content = json.loads((path / CONFIG).read_text(encoding="utf-8"))
    except OSError as error:
        raise CheckpointError(
            f"cannot read {path / CONFIG} ({error.strerror}); a model is a folder written by "
            "save_pretrained"
        ) from error
    except ValueError as error:
        raise CheckpointError(f"{path / CONFIG} is not complete JSON ({error})") from error
    if not isinstance(content, dict) or not {"format", "fingerprint", "model"} <= set(content):
        raise CheckpointError(f"{path / CONFIG} is not the config of a diverset model")
    if content["format"] != FORMAT:
        raise CheckpointError(
            f"{path} has format {content['format']}, this version reads {FORMAT}; "
            "update diverset, or save the model again with this version"
        )
    return content


def _plain_card(model: Model) -> str:
    chosen = model.architecture
    weights = sum(parameter.numel() for parameter in model.parameters())
    return (
        "---\nlibrary_name: diverset\npipeline_tag: feature-extraction\n---\n"
        "# A diverset model\n\n"
        f"Images by {chosen.image.kind}, texts by {chosen.text.kind}; sets of "
        f"{chosen.image_set.size} and {chosen.text_set.size} elements ({chosen.image_set.kind}), "
        f"{chosen.dim} wide, compared by {chosen.similarity.kind}; {weights:,} parameters.\n\n"
        "Load it with `diverset.Model.from_pretrained`. Trained on, measured at: not recorded.\n"
    )
