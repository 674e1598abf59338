"""Filters over metadata as trees: what they mean, and which metadata they can compare.

`filter_parser` reads a tree from text; every store translates it into its own query language with
bound parameters. The meaning is the same everywhere: a comparison with a field that is missing,
null or of another kind is false; text compares by code point; booleans compare only by `=`.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from diverset.errors import InputError

TEXT_OPERATORS = ("contains", "startswith")
Value = str | int | float | bool
MAX_INTEGER = 2**53  # engines compare numbers as float64, which is exact up to here
FIELD = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\Z")


@dataclass(frozen=True)
class Compare:
    """`field operator value`: =, <, <=, >, >= or a text operator; `!=` is a `Not` of `=`."""

    field: str
    operator: str
    value: Value


@dataclass(frozen=True)
class And:
    parts: tuple[Filter, ...]


@dataclass(frozen=True)
class Or:
    parts: tuple[Filter, ...]


@dataclass(frozen=True)
class Not:
    part: Filter


Filter = Compare | And | Or | Not


def comparisons(tree: Filter) -> Iterator[Compare]:
    """All comparisons of a filter.

    >>> tree = And((Compare("year", ">", 2000), Not(Compare("place", "=", "Rome"))))
    >>> [leaf.field for leaf in comparisons(tree)]
    ['year', 'place']
    """
    match tree:
        case And(parts) | Or(parts):
            for part in parts:
                yield from comparisons(part)
        case Not(part):
            yield from comparisons(part)
        case Compare():
            yield tree


def kind(value: object) -> str:
    """The kind of a value, "bool", "number", "text" or "none"; only equal kinds compare.

    >>> kind(True), kind(2), kind(None)
    ('bool', 'number', 'none')
    """
    if isinstance(value, bool):
        return "bool"
    if isinstance(value, (int, float)):
        return "number"
    return "text" if isinstance(value, str) else "none"


def check_metadata(metadata: Mapping[str, object]) -> None:
    """Raise unless every field has a plain name and a scalar that JSON can hold."""
    for name, value in metadata.items():
        if not isinstance(name, str) or not FIELD.match(name):
            raise InputError(
                f"metadata field {name!r} is not a plain name; use letters, digits and underscores"
            )
        if value is not None and kind(value) == "none":
            raise InputError(
                f"metadata field {name!r} holds {type(value).__name__}; "
                "give text, a number, true, false or null"
            )
        if isinstance(value, float) and not math.isfinite(value):
            raise InputError(f"metadata field {name!r} is {value}; give a finite number")
        if isinstance(value, int) and abs(value) >= 2**63:
            raise InputError(f"metadata field {name!r} is {value}; give it as text, or as a float")
        if isinstance(value, str):
            check_text(f"metadata field {name!r}", value)


def check_text(name: str, value: str) -> None:
    """Raise if text cannot be stored by every database."""
    if not is_storable(value):
        raise InputError(
            f"{name} is {value[:40]!r}, with a NUL or half a surrogate pair; remove it"
        )


def is_storable(text: str) -> bool:
    """Whether every database can store a text: no NUL, and valid as UTF-8."""
    return "\0" not in text and not has_surrogate(text)


def has_surrogate(text: str) -> bool:
    """Whether a text holds half a surrogate pair, as file names that are not UTF-8 do."""
    return any("\ud800" <= character <= "\udfff" for character in text)
