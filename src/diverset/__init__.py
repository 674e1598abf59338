"""diverset: cross-modal retrieval with sets of diverse embeddings.

The names below are the public door. They are imported when first used, so that the command line
answers `--help` without waiting for torch.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from diverset import errors, evaluation, features, losses, sets, similarity
    from diverset.config import (
        ImageConfig,
        ModelConfig,
        SetConfig,
        SimilarityConfig,
        TextConfig,
    )
    from diverset.data.vocabulary import Vocabulary
    from diverset.errors import DiversetError
    from diverset.loading import load
    from diverset.model import Model
    from diverset.types import EmbeddingSets, Features, Maps, Padded

__version__ = "0.1.0"

_PLACES = {
    "DiversetError": "errors",
    "EmbeddingSets": "types",
    "Features": "types",
    "ImageConfig": "config",
    "Maps": "types",
    "Model": "model",
    "ModelConfig": "config",
    "Padded": "types",
    "SetConfig": "config",
    "SimilarityConfig": "config",
    "TextConfig": "config",
    "Vocabulary": "data.vocabulary",
    "load": "loading",
}
_MODULES = ("errors", "evaluation", "features", "losses", "sets", "similarity")

__all__ = [
    "DiversetError",
    "EmbeddingSets",
    "Features",
    "ImageConfig",
    "Maps",
    "Model",
    "ModelConfig",
    "Padded",
    "SetConfig",
    "SimilarityConfig",
    "TextConfig",
    "Vocabulary",
    "errors",
    "evaluation",
    "features",
    "load",
    "losses",
    "sets",
    "similarity",
]


def __getattr__(name: str) -> Any:
    if name in _MODULES:
        return importlib.import_module(f"diverset.{name}")
    if name in _PLACES:
        return getattr(importlib.import_module(f"diverset.{_PLACES[name]}"), name)
    raise AttributeError(f"module 'diverset' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted([*__all__, "__version__"])
