"""What diverset raises when it is given something it cannot use.

Every error says what is wrong, which value it saw and what to do next. All of them derive
from `DiversetError`, so one `except` clause is enough for a caller who only wants to report.

    DiversetError
    ├── ShapeError         a tensor has the wrong shape, or two do not fit each other
    ├── InputError         the shape fits, the content does not: NaN, zero vectors, no words
    ├── OptionError        an option that does not exist, or a value outside its range
    ├── CheckpointError    a file of weights that is missing, truncated, foreign or of another model
    ├── VocabularyError    a vocabulary file that cannot be read safely
    ├── DataError          a dataset file that is missing, truncated or contradicts itself
    ├── NotFoundError      something that is asked for by name and not there
    ├── EngineError        a search engine that cannot be reached, or holds something else
    ├── IndexFileError     an index that is missing, damaged, foreign, read-only or out of space
    │   └── RebuiltError   a library that was emptied or removed while it was in use
    └── MissingExtraError  an optional package that is needed here and not installed
"""

import importlib
from collections.abc import Iterable, Sequence
from types import ModuleType


class DiversetError(Exception):
    """The root of everything that diverset raises on purpose."""


class ShapeError(DiversetError, ValueError):
    """A tensor has the wrong shape, or two tensors do not fit each other."""


class InputError(DiversetError, ValueError):
    """The shape fits, the content does not: NaN, a zero vector, an empty caption."""


class OptionError(DiversetError, ValueError):
    """An option that does not exist, or a value outside its range."""


class CheckpointError(DiversetError):
    """Weights that are missing, truncated, foreign or of another model."""


class VocabularyError(DiversetError, ValueError):
    """A vocabulary that cannot be read, or cannot be read safely."""


class DataError(DiversetError, ValueError):
    """A dataset file that is missing, truncated, or contradicts itself or another one."""


class NotFoundError(DiversetError, LookupError):
    """Something that is asked for by name, and not there."""


class EngineError(DiversetError):
    """A search engine that cannot be reached, refuses, or holds something else than expected."""


class IndexFileError(DiversetError):
    """An index that is missing, damaged, of another model or format, read-only or out of space."""


class RebuiltError(IndexFileError):
    """A library that was rebuilt or removed while this process had it open; open it again."""


class MissingExtraError(DiversetError, ImportError):
    """An optional package that is needed here and not installed."""


def check_choice(name: str, value: object, choices: Iterable[str]) -> None:
    """Raise an `OptionError` that lists the choices unless `value` is one of them.

    >>> check_choice("similarity", "chamfer", ["chamfer", "mil"])
    >>> check_choice("similarity", "chamfr", ["chamfer", "mil"])
    Traceback (most recent call last):
    ...
    diverset.errors.OptionError: similarity is 'chamfr'; choose one of: chamfer, mil
    """
    choices = list(choices)
    if value not in choices:
        raise OptionError(f"{name} is {value!r}; choose one of: {', '.join(choices)}")


def import_extra(module: str, extra: str) -> ModuleType:
    """Import an optional module, or say which extra of diverset brings it.

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
    """Name the first values and count the others, for messages about long lists.

    >>> a_few(["a.jpg", "b.jpg", "c.jpg", "d.jpg", "e.jpg"])
    "'a.jpg', 'b.jpg', 'c.jpg' and 2 more"
    """
    named = ", ".join(repr(value) for value in values[:most])
    return named + (f" and {len(values) - most} more" if len(values) > most else "")
