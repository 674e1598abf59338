"""Models by their address: a folder of a run, a folder of a model.

Only what encodes is loaded; datasets and recipes are not known here.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from diverset.errors import CheckpointError

if TYPE_CHECKING:
    from diverset.model import Model

DEFAULT = "photos"
CONFIG, BEST = "config.json", "model"


def model_folder(address: str) -> Path:
    """The folder of a model: the address itself, or `model/` in a run."""
    for folder in (Path(address), Path(address) / BEST):
        if (folder / CONFIG).exists():
            return folder.resolve()
    if address == DEFAULT:
        raise CheckpointError(
            f"this version of diverset comes without the model {DEFAULT!r}; give --model with the "
            "folder of a run or of a model"
        )
    raise CheckpointError(f"there is no model in {address}; give the folder of a run or of a model")


def open_model(address: str, device: str = "cpu") -> Model:
    """The model at an address."""
    folder = model_folder(address)
    from diverset.model import Model

    return Model.from_pretrained(folder, device)
