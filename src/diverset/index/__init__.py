"""Search over embedding sets: the embedded index, and the contract that engines share with it.

The names are imported when first used, so that the command line can ask `command` for its verbs
without waiting for torch.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from diverset.index.base import Hit, Metadata, Records, Sets, SetStore, Settings
    from diverset.index.embedded import SetIndex
    from diverset.index.fast import Plan
    from diverset.index.of_model import settings_of
    from diverset.index.tune import Tuned

_PLACES = {
    "Hit": "base",
    "Metadata": "base",
    "Plan": "fast",
    "Records": "base",
    "SetIndex": "embedded",
    "SetStore": "base",
    "Sets": "base",
    "Settings": "base",
    "Tuned": "tune",
    "settings_of": "of_model",
}

__all__ = [
    "Hit",
    "Metadata",
    "Plan",
    "Records",
    "SetIndex",
    "SetStore",
    "Sets",
    "Settings",
    "Tuned",
    "settings_of",
]


def __getattr__(name: str) -> Any:
    if name not in _PLACES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"{__name__}.{_PLACES[name]}"), name)
