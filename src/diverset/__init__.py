"""diverset: cross-modal retrieval with sets of diverse embeddings."""

from diverset import errors, features, losses, sets, similarity
from diverset.config import (
    ImageConfig,
    ModelConfig,
    SetConfig,
    SimilarityConfig,
    TextConfig,
)
from diverset.data.vocabulary import Vocabulary
from diverset.errors import DiversetError
from diverset.model import Model
from diverset.types import EmbeddingSets, Features, Padded

__version__ = "0.1.0"

__all__ = [
    "DiversetError",
    "EmbeddingSets",
    "Features",
    "ImageConfig",
    "Model",
    "ModelConfig",
    "Padded",
    "SetConfig",
    "SimilarityConfig",
    "TextConfig",
    "Vocabulary",
    "errors",
    "features",
    "losses",
    "sets",
    "similarity",
]
