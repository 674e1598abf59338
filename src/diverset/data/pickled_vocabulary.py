"""Read pickled vocabularies of older projects without executing their code.

Loading a pickle can call any function. Here a class named Vocabulary becomes an empty placeholder,
plain containers are allowed and everything else is rejected by name.
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


class _RejectedError(Exception):
    """Carries the rejected name through the unpickler."""


class _Unpickler(pickle.Unpickler):
    def __init__(self, stream: io.BytesIO) -> None:
        # Pickles of Python 2 store words as byte strings.
        super().__init__(stream, encoding="utf-8")
        # A new class per load: a pickle can set attributes on it.
        self.placeholder: type[Any] = type("Vocabulary", (), {})

    def find_class(self, module: str, name: str, /) -> Any:
        if name == "Vocabulary":
            return self.placeholder
        if module in ("builtins", "__builtin__") and name in _CONTAINERS:
            return getattr(builtins, name)
        if module == "collections" and name in _COLLECTIONS:
            return getattr(collections, name)
        if module in ("copyreg", "copy_reg") and name == "_reconstructor":
            return self._reconstruct
        raise _RejectedError(f"{module}.{name}")

    def _reconstruct(self, kind: type[Any], base: type[Any], state: object) -> Any:
        """What the oldest pickle protocols call to create an object."""
        if kind is not self.placeholder or base is not object:
            raise _RejectedError(f"an object of {kind!r}")
        return kind()


def read_pickled(path: str | Path, content: bytes) -> dict[str, Any]:
    """The attributes of a pickled Vocabulary object, or a pickled plain dictionary; the path is for
    error messages."""
    unpickler = _Unpickler(io.BytesIO(content))
    try:
        state = unpickler.load()
    except _RejectedError as error:
        raise VocabularyError(
            f"{path} refers to {error}, which no vocabulary needs; nothing was executed. "
            "Get the vocabulary as JSON, or build it from the captions"
        ) from error
    except (
        pickle.UnpicklingError, EOFError, AttributeError, ImportError, LookupError,
        TypeError, ValueError, OverflowError, MemoryError,
    ) as error:  # fmt: skip
        raise VocabularyError(
            f"{path} is neither JSON nor a complete pickle ({error}); download it again"
        ) from error
    if isinstance(state, unpickler.placeholder):
        return dict(vars(state))
    if isinstance(state, dict):
        return dict(state)
    raise VocabularyError(
        f"{path} holds a {type(state).__name__}, not a vocabulary; give another file"
    )
