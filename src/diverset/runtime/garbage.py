"""Python's garbage collection while modules are imported."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def collection_paused() -> Iterator[None]:
    """Import without searching for garbage: what modules create stays until the program ends.

    Importing torch creates half a million objects, and each search through them takes 0.1 s.
    """
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        gc.freeze()  # later searches leave out what exists now
        if enabled:
            gc.enable()
