"""`diverset.load`: a model by its name or from a folder, whatever its kind."""

from __future__ import annotations

from dataclasses import replace
from os import PathLike
from typing import TYPE_CHECKING, NamedTuple

from diverset.config import ModelConfig, from_dict
from diverset.errors import OptionError
from diverset.model.folder import is_dual_encoder, model_folder, read_config
from diverset.model.spec import parse_spec

if TYPE_CHECKING:
    from diverset.model.model import Model


class ModelIdentity(NamedTuple):
    """What an index must know of a model.

    Attributes:
        name: from which `load` loads it, whatever the working folder.
        config: its architecture.
        fingerprint: of everything that decides its sets.
        model: itself, if it had to be loaded for the fingerprint.
    """

    name: str
    config: ModelConfig
    fingerprint: str
    model: Model | None = None


def load(
    name: str | PathLike[str],
    device: str = "cpu",
    allow_download: bool = False,
    texts_only: bool = False,
) -> Model:
    """A trained model, ready to encode.

    Args:
        name: a shipped model ("photos": photographs and English captions), the folder of a run,
            one that `save_pretrained` wrote, or a CLIP, SigLIP or SigLIP 2 of the transformers
            library, by folder or by its name on the hub, with options as in "PATH?crops=5"
            (`diverset.model.spec`). A local folder takes precedence over other models of the same
            name.
        device: where to put it: "cpu", "cuda", ... or "auto", a GPU if there is one.
        allow_download: whether a model may be downloaded from the hub; otherwise only its cache is
            used.
        texts_only: leave out the image side of a model of our own, which is faster.
    """
    spec, folder = parse_spec(name), model_folder(name, allow_download)
    from diverset.runtime.device import resolve_device  # imports torch

    device = resolve_device(device)
    if is_dual_encoder(folder):
        from diverset.model.dual_encoder import DualEncoder  # imports transformers

        return DualEncoder.from_pretrained(
            folder, device, 1 if spec.crops is None else spec.crops, spec.prompts
        )
    if spec.has_options:
        raise OptionError(f"{name} is not a CLIP or SigLIP; omit the options after '?'")
    from diverset.model.model import Model  # imports torch

    return Model.from_folder(folder, device, texts_only)


def identify(name: str | PathLike[str]) -> ModelIdentity:
    """What a model is; one of our own is not loaded for it."""
    spec, folder = parse_spec(name), model_folder(name).resolve()
    if is_dual_encoder(folder) or spec.has_options:
        model = load(name)
        absolute = str(replace(spec, name=str(folder)))
        return ModelIdentity(absolute, model.config, model.fingerprint(), model)
    content = read_config(folder)
    config = from_dict(ModelConfig, content["model"])
    return ModelIdentity(str(folder), config, content["fingerprint"])
