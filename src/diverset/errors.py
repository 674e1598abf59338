"""The exceptions of diverset.

Every message says what is wrong, the value, and what to do next. All exceptions derive from
`DiversetError`.
"""

import importlib
from collections.abc import Iterable, Sequence
from numbers import Integral
from types import ModuleType


class DiversetError(Exception):
    """The base class of all exceptions of diverset."""


class ShapeError(DiversetError, ValueError):
    """A tensor has the wrong shape, or two tensors do not fit each other."""


class InputError(DiversetError, ValueError):
    """The values are invalid: NaN, a zero vector, an empty caption."""


class OptionError(DiversetError, ValueError):
    """An option that does not exist, or a value outside its range."""


class CheckpointError(DiversetError):
    """Weights that are missing, truncated or of another model."""


class VocabularyError(DiversetError, ValueError):
    """A vocabulary that cannot be read, or cannot be read safely."""


class DataError(DiversetError, ValueError):
    """A dataset file that is missing, truncated, or contradicts itself or another one."""


class NotFoundError(DiversetError, LookupError):
    """A name that does not exist."""


class LockedError(DiversetError):
    """Another process is writing to the same folder."""


class EngineError(DiversetError):
    """A search engine that cannot be reached, rejects a request, or holds unexpected data."""


class IndexFileError(DiversetError):
    """An index that is missing, damaged, of another model or format, read-only or out of space."""


class DamagedError(IndexFileError):
    """Stored data that fail their checksum; the message names them."""


class RebuiltError(IndexFileError):
    """A library that was rebuilt or removed while this process had it open; open it again."""


class MissingExtraError(DiversetError, ImportError):
    """An optional package that is not installed."""


def check_choice(name: str, value: object, choices: Iterable[str], optional: bool = False) -> None:
    """Raise an `OptionError` that lists the choices unless `value` is one of them.

    An `optional` value may also be None, "not given".

    >>> check_choice("similarity", "chamfer", ["chamfer", "mil"])
    >>> check_choice("similarity", "chamfr", ["chamfer", "mil"])
    Traceback (most recent call last):
    ...
    diverset.errors.OptionError: similarity is 'chamfr'; choose one of: chamfer, mil
    """
    choices = list(choices)
    if value not in choices and not (optional and value is None):
        none = ", or null for none" if optional else ""
        raise OptionError(f"{name} is {value!r}; choose one of: {', '.join(choices)}{none}")


def check_positive(name: str, value: float | None) -> None:
    """Raise an `OptionError` unless `value` is None (not given) or above 0."""
    if value is not None and not value > 0:
        raise OptionError(f"{name} is {value}; give a number above 0")


def check_count(name: str, value: object) -> int:
    """A whole number above 0, also of a numpy type, as an int.

    >>> check_count("k", 3)
    3
    """
    if isinstance(value, bool) or not isinstance(value, Integral) or value < 1:
        raise OptionError(f"{name} is {value!r}; give a whole number above 0")
    return int(value)


def import_extra(module: str, extra: str) -> ModuleType:
    """Import an optional module, or raise an error that names the extra to install.

    >>> import_extra("no_such_module", "data")
    Traceback (most recent call last):
    ...
    diverset.errors.MissingExtraError: no_such_module is missing; pip install 'diverset[data]'
    """
    try:
        return importlib.import_module(module)
    except ImportError as error:
        missing = error.name or module
        raise MissingExtraError(
            f"{missing} is missing; pip install 'diverset[{extra}]'", name=missing
        ) from error


def a_few(values: Sequence[object], most: int = 3) -> str:
    """The first values and the number of the others, for messages about long lists.

    >>> a_few(["a.jpg", "b.jpg", "c.jpg", "d.jpg", "e.jpg"])
    "'a.jpg', 'b.jpg', 'c.jpg' and 2 more"
    """
    named = ", ".join(repr(value) for value in values[:most])
    return named + (f" and {len(values) - most} more" if len(values) > most else "")
