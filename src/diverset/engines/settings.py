"""An index's settings as an engine stores them: a JSON object with a format version.

Engines also share here what they cannot hold exactly: they compare numbers as float64 and take
exponentials of alpha * cosine.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

from diverset.errors import DiversetError, EngineError, InputError, OptionError
from diverset.index.base import Metadata, Records, Sets, Settings
from diverset.index.checks import check_items

FORMAT = 1
LARGEST_ALPHA = 300.0  # exp of it, and of its negative, is far from the ends of float64
LARGEST_WHOLE = 2**53  # up to here float64 holds every whole number
NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,49}\Z")


def to_stored(settings: Settings) -> dict[str, Any]:
    """What is written into an engine.

    >>> to_stored(Settings("abc", slots=4, dim=256))["format"]
    1
    """
    if settings.alpha > LARGEST_ALPHA:
        raise OptionError(
            f"alpha is {settings.alpha:g}; engines compute exp(alpha), so at most {LARGEST_ALPHA:g}"
        )
    return {"format": FORMAT, **asdict(settings)}


def from_stored(stored: object, place: str) -> Settings:
    """Read what `to_stored` wrote; `place` names it in messages."""
    if not isinstance(stored, Mapping) or "format" not in stored:
        raise EngineError(f"{place} was not made by diverset; give another name")
    if stored["format"] != FORMAT:
        raise EngineError(
            f"{place} has format {stored['format']}, this version of diverset reads {FORMAT}; "
            "update diverset"
        )
    try:
        return Settings(**{key: value for key, value in stored.items() if key != "format"})
    except (TypeError, DiversetError) as error:
        raise EngineError(f"the settings of {place} are damaged ({error})") from error


def check_same(wanted: Settings, found: Settings, place: str) -> None:
    """Raise unless a place holds the sets of the wanted model, compared in the wanted way."""
    check_model(wanted.model, found, place)
    for name, value in asdict(wanted).items():
        there = getattr(found, name)
        if there != value:
            raise EngineError(f"{place} has {name} {there}, not {value}; give another index")


def check_model(wanted: str, found: Settings, place: str) -> None:
    """Raise unless a place was made for this model; an empty name stands for any."""
    if wanted and wanted != found.model:
        raise EngineError(
            f"{place} holds sets of model {found.model}, not of {wanted}; sets of two models "
            "cannot be compared, so give another index or encode again"
        )


def check_name(kind: str, name: str) -> str:
    """A name of a table or collection that needs no quoting anywhere."""
    if not NAME.match(name):
        raise OptionError(
            f"the {kind} is called {name[:60]!r}; use up to 50 letters, digits and underscores, "
            "not beginning with a digit"
        )
    return name


def check_storable(
    settings: Settings, ids: Sequence[str], sets: Sets, metadata: Sequence[Metadata] | None
) -> Records:
    """Items that an engine may store: those of every store, with numbers it can compare."""
    items = check_items(settings, ids, sets, metadata)
    for one in items.metadata:
        for name, value in one.items():
            if isinstance(value, int) and abs(value) > LARGEST_WHOLE:
                raise InputError(
                    f"metadata field {name!r} is {value}; engines compare numbers as float64, "
                    "which holds whole numbers up to 2**53, so store it as text"
                )
    return items


def check_compared(field: str, value: float) -> None:
    """Raise where a filter compares with a number that engines cannot hold."""
    too_large = isinstance(value, int) and abs(value) > LARGEST_WHOLE
    if too_large or not math.isfinite(value):
        raise OptionError(
            f"the filter compares {field} with {value}; engines compare numbers as float64: give "
            "a finite number, and whole numbers up to 2**53"
        )
