"""The folder of a model: where shipped and trained models lie, and their config.json.

config.json has four fields: "format" (2), "fingerprint" (hash of configuration and weights),
"model" (the `ModelConfig`) and "frozen_backbones" (the fingerprint of each frozen backbone, by
"image" and "text"; frozen weights themselves are not stored). This module does not import torch.
"""

from __future__ import annotations

from os import PathLike
from pathlib import Path
from typing import Any

from diverset.errors import CheckpointError, DataError
from diverset.model.hub import hub_folder, is_hub_name
from diverset.model.spec import parse_spec
from diverset.runtime.files import read_json_object

FORMAT = 2
CONFIG, WEIGHTS = "config.json", "model.safetensors"
VOCABULARY, CARD = "vocabulary.json", "README.md"
FIELDS = {"format", "fingerprint", "model"}
RUN_MODEL = "model"  # where a run keeps its best model
SHIPPED = Path(__file__).parents[1] / "weights"
NAMES = {"photos": "photographs and English captions, trained on COCO and Flickr8k"}
DEFAULT = "photos"
DUAL_ENCODERS = ("clip", "siglip", "siglip2")
"""Values of "model_type" in the config.json of Hugging Face models that `load` reads."""


def model_folder(model: str | PathLike[str], allow_download: bool = False) -> Path:
    """The folder of a model, given by itself, by its run, by the name of a shipped model, or by a
    name on the Hugging Face hub. Options after the name are ignored."""
    name = parse_spec(model).name
    path = Path(name).expanduser()
    for folder in (path / RUN_MODEL, path):
        if (folder / CONFIG).exists():
            return folder
    if name not in NAMES:
        if is_hub_name(name):
            return hub_folder(name, allow_download)
        raise CheckpointError(
            f"{path} is not the folder of a run or a model; give the folder of a run or a model, "
            f"a shipped model ({', '.join(NAMES)}), or a CLIP or SigLIP on the Hugging Face hub"
        )
    if not (SHIPPED / name / CONFIG).exists():
        raise CheckpointError(
            f"the model {name!r} ({NAMES[name]}) is not part of this installation. Train "
            "one with `diverset train photos --out runs/photos --data.root "
            "FOLDER` and give --model runs/photos, or diverset.load('runs/photos')"
        )
    return SHIPPED / name


def is_dual_encoder(folder: str | PathLike[str]) -> bool:
    """Whether a folder holds a CLIP, SigLIP or SigLIP 2 of the transformers library."""
    try:
        return read_json_object(Path(folder) / CONFIG).get("model_type") in DUAL_ENCODERS
    except DataError:
        return False


def read_config(folder: str | PathLike[str]) -> dict[str, Any]:
    """The content of config.json, of this format."""
    path = Path(folder)
    try:
        content = read_json_object(path / CONFIG, "copy it again")
    except DataError as error:
        raise CheckpointError(f"{error}; a model is a folder that save_pretrained wrote") from error
    if not set(content) >= FIELDS:
        kind = content.get("model_type")
        hint = f" but of a {kind} (of these, {', '.join(DUAL_ENCODERS)} can be loaded)"
        raise CheckpointError(
            f"{path / CONFIG} is not the config of a diverset model{hint if kind else ''}; give "
            "another folder"
        )
    if content["format"] != FORMAT:
        raise CheckpointError(
            f"{path} has model format {content['format']}, this version reads {FORMAT}; save or "
            "train the model again with this version, or update diverset"
        )
    backbones = content.get("frozen_backbones", {})
    if not isinstance(backbones, dict) or not all(
        isinstance(value, str) for value in (content["fingerprint"], *backbones.values())
    ):
        raise CheckpointError(f"the fingerprints in {path / CONFIG} are not text; copy it again")
    return content
