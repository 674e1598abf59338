"""From a model to the settings of an index of its sets."""

from __future__ import annotations

from diverset.errors import OptionError
from diverset.index.base import Settings
from diverset.model import Model


def settings_of(model: Model, slots: int) -> Settings:
    """What an index of a model's sets is made with: its fingerprint, width, similarity and alpha.

    Args:
        model: that makes the sets.
        slots: elements of a stored set, `sets.shape[1]`.
    """
    if not model.has_sets:
        raise OptionError("this model compares all local features; an index needs sets of one size")
    similarity = model.architecture.similarity
    return Settings(
        model.fingerprint(), slots, model.architecture.dim, similarity.kind, similarity.alpha
    )
