"""`diverset.load`: a model by the name it ships under, or from a folder."""

from __future__ import annotations

from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING

from diverset.errors import CheckpointError

if TYPE_CHECKING:
    from diverset.model import Model

SHIPPED = Path(__file__).parent / "weights"
CONFIG = "config.json"
RUN_MODEL = "model"  # where a run keeps its best model
DEFAULT = "photos"
NAMES = {"photos": "photographs and English captions, trained on Flickr8k"}


def load(name: str | PathLike[str], device: str = "cpu") -> Model:
    """A trained model, ready to encode.

    Args:
        name: a shipped model ("photos": photographs and English captions), the folder of a run,
            or one that `save_pretrained` wrote. A folder of a shipped name comes first.
        device: where to put it.
    """
    from diverset.model import Model

    return Model.from_pretrained(model_folder(name), device)


def model_folder(name: str | PathLike[str]) -> Path:
    """Where the model of this name, run or folder lies."""
    path = Path(name)
    for folder in (path / RUN_MODEL, path):
        if (folder / CONFIG).exists():
            return folder
    if str(name) not in NAMES:
        raise CheckpointError(
            f"{path} is no folder of a run or of a model, and no shipped model is called so; "
            f"shipped: {', '.join(NAMES)}"
        )
    if not (SHIPPED / str(name) / CONFIG).exists():
        raise CheckpointError(
            f"the model {str(name)!r} ({NAMES[str(name)]}) is not part of this installation. Train "
            "one with `diverset train recipes/photos.yaml --out runs/photos --data.root "
            "FOLDER` and give --model runs/photos, or diverset.load('runs/photos')"
        )
    return SHIPPED / str(name)
