"""Settings of a store as an engine stores them (JSON with a format version), and checks of what
engines cannot represent: they compare numbers as float64 and compute exp(alpha * cosine)."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

from diverset.errors import DiversetError, EngineError, InputError, OptionError
from diverset.index.checks import check_items
from diverset.index.filter_language import MAX_INTEGER
from diverset.index.set_store import IndexSettings, Metadata, Records, Sets

FORMAT = 2
MAX_ALPHA = 300.0  # exp of it, and of its negative, is far from the limits of float64
NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,49}\Z")


def to_stored(settings: IndexSettings) -> dict[str, Any]:
    """Settings as an engine stores them.

    >>> to_stored(IndexSettings("abc", elements=4, dim=256))["format"]
    2
    """
    if settings.alpha > MAX_ALPHA:
        raise OptionError(
            f"alpha is {settings.alpha:g}; engines compute exp(alpha), so at most {MAX_ALPHA:g}"
        )
    return {"format": FORMAT, **asdict(settings)}


def from_stored(stored: object, label: str) -> IndexSettings:
    """Read what `to_stored` wrote; `label` names the store in messages."""
    if not isinstance(stored, Mapping) or "format" not in stored:
        raise EngineError(f"{label} was not created by diverset; give another name")
    if stored["format"] != FORMAT:
        raise EngineError(
            f"{label} has format {stored['format']}, this version of diverset reads {FORMAT}; "
            "update diverset, or create the store again"
        )
    try:
        return IndexSettings(**{key: value for key, value in stored.items() if key != "format"})
    except (TypeError, DiversetError) as error:
        raise EngineError(f"the settings of {label} are damaged ({error})") from error


def check_same(expected: IndexSettings, stored: IndexSettings, label: str) -> None:
    """Raise unless a store has the expected settings."""
    for name, value in vars(expected).items():
        if getattr(stored, name) != value:
            raise EngineError(
                f"{label} has {name} {getattr(stored, name)}, not {value}; give another store, or "
                "encode the collection again"
            )


def element_names(settings: IndexSettings) -> list[str]:
    """The columns or named vectors of the elements of a stored set."""
    return [f"e{index}" for index in range(settings.elements)]


def check_name(kind: str, name: str) -> str:
    """A name of a table or collection that needs no quoting."""
    if not NAME.match(name):
        raise OptionError(
            f"the name of the {kind} is {name[:60]!r}; use up to 50 letters, digits and "
            "underscores, not beginning with a digit"
        )
    return name


def check_storable(
    settings: IndexSettings, ids: Sequence[str], sets: Sets, metadata: Sequence[Metadata] | None
) -> Records:
    """Items ready to be stored, with numbers that an engine can compare."""
    items = check_items(settings, ids, sets, metadata)
    for item in items.metadata:
        for name, value in item.items():
            if isinstance(value, int) and abs(value) > MAX_INTEGER:
                raise InputError(
                    f"metadata field {name!r} is {value}; engines compare numbers as float64, "
                    "which represents integers up to 2**53: store it as text"
                )
    return items


def check_compared(field: str, value: float) -> None:
    """Raise if a filter compares with a number that engines cannot represent."""
    too_large = isinstance(value, int) and abs(value) > MAX_INTEGER
    if too_large or not math.isfinite(value):
        raise OptionError(
            f"the filter compares {field} with {value}; engines compare numbers as float64: give "
            "a finite number, and integers up to 2**53"
        )
