"""Reading the pickled vocabularies that older projects published, without trusting them.

A pickle may name any callable and have it run on loading. Here a class named Vocabulary becomes
an empty stand-in, plain containers are let through and everything else is refused by name. It
does not know what a valid vocabulary is.
"""

from __future__ import annotations

import builtins
import collections
import io
import pickle
from pathlib import Path
from typing import Any

from diverset.errors import VocabularyError

_CONTAINERS = ("dict", "list", "tuple", "set", "frozenset", "object")
_COLLECTIONS = ("defaultdict", "OrderedDict")


class _Refused(Exception):
    """Carries the refused name through the unpickler."""


class _Unpickler(pickle.Unpickler):
    def __init__(self, stream: io.BytesIO) -> None:
        # Pickles of Python 2 hold byte strings where words are meant.
        super().__init__(stream, encoding="utf-8")
        # One stand-in for each load: a pickle can write attributes onto a class it is given.
        self.stand_in: type[Any] = type("Vocabulary", (), {})

    def find_class(self, module: str, name: str, /) -> Any:
        if name == "Vocabulary":
            return self.stand_in
        if module in ("builtins", "__builtin__") and name in _CONTAINERS:
            return getattr(builtins, name)
        if module == "collections" and name in _COLLECTIONS:
            return getattr(collections, name)
        if module in ("copyreg", "copy_reg") and name == "_reconstructor":
            return self._rebuilt
        raise _Refused(f"{module}.{name}")

    def _rebuilt(self, kind: type[Any], base: type[Any], state: object) -> Any:
        """What the oldest pickle protocols call to make an object; here, a stand-in only."""
        if kind is not self.stand_in or base is not object:
            raise _Refused(f"an object of {kind!r}")
        return kind()


def read_pickled(path: str | Path, content: bytes) -> dict[str, Any]:
    """The attributes of a pickled Vocabulary object, or a pickled plain dictionary.

    Args:
        path: what to call the file in messages.
        content: the bytes of the file.
    """
    unpickler = _Unpickler(io.BytesIO(content))
    try:
        state = unpickler.load()
    except _Refused as error:
        raise VocabularyError(
            f"{path} asks for {error}, which a vocabulary does not need; it was not run. "
            "Get the vocabulary as JSON, or build it from the captions"
        ) from error
    except (
        pickle.UnpicklingError, EOFError, AttributeError, ImportError, LookupError,
        TypeError, ValueError, OverflowError, MemoryError,
    ) as error:  # fmt: skip
        raise VocabularyError(
            f"{path} is neither JSON nor a complete pickle ({error}); get it again"
        ) from error
    if isinstance(state, unpickler.stand_in):
        return dict(vars(state))
    if isinstance(state, dict):
        return dict(state)
    raise VocabularyError(f"{path} holds a {type(state).__name__}, not a vocabulary; check it")
