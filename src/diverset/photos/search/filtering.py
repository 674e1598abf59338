"""Filters over the metadata of images: dates by period, paths with `~`.

A date may be a year, a month, a day or a time, and stands for its whole period: `taken <= 2020` and
`taken = 2020` include all of 2020.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import replace
from datetime import datetime

from diverset.errors import OptionError
from diverset.index import SetIndex
from diverset.index.filter_checks import check_fields
from diverset.index.filter_language import TEXT_OPERATORS, And, Compare, Filter, Not, Or
from diverset.index.filter_parser import parse

FIELDS = {
    "path": "text", "folder": "text", "name": "text", "bytes": "number", "width": "number",
    "height": "number", "modified": "text", "taken": "text",
}  # fmt: skip
"""Fields that images can have, even if none in the library has them."""
DATES, PATHS = ("modified", "taken"), ("path", "folder")
START = "0001-01-01T00:00:00"  # completes a date that is only a year, a month, ...
LENGTHS = (4, 7, 10, 13, 16, 19)  # of years, months, days, hours, minutes and seconds


def photo_filter(text: str, index: SetIndex) -> Filter:
    """A filter that people write, ready for the index; unknown fields and values are errors."""
    tree = _replace_leaves(parse(text), _rewrite)
    kinds = {name: {kind} for name, kind in FIELDS.items()}
    for name, kind in index.fields():
        kinds.setdefault(name, set()).add(kind)
    check_fields(tree, kinds)
    return tree


def _replace_leaves(tree: Filter, change: Callable[[Compare], Filter]) -> Filter:
    match tree:
        case And(parts) | Or(parts):
            return type(tree)(tuple(_replace_leaves(part, change) for part in parts))
        case Not(part):
            return Not(_replace_leaves(part, change))
        case Compare():
            return change(tree)


def _rewrite(leaf: Compare) -> Filter:
    if leaf.field in DATES and leaf.operator not in TEXT_OPERATORS:
        return _by_period(leaf)
    if leaf.field in PATHS and isinstance(leaf.value, str) and leaf.value.startswith("~"):
        return replace(leaf, value=os.path.expanduser(leaf.value))
    return leaf


def _by_period(leaf: Compare) -> Filter:
    """Compare a date with a period: as text, a period is before each date in it."""
    period = _check_date(leaf)
    inside = Compare(leaf.field, "startswith", period)
    compared = replace(leaf, value=period)
    match leaf.operator:
        case "=":
            return inside
        case "<=":
            return Or((compared, inside))
        case ">":
            return And((compared, Not(inside)))
        case _:
            return compared


def _check_date(leaf: Compare) -> str:
    text = str(leaf.value).replace(" ", "T")
    try:
        if len(text) not in LENGTHS:
            raise ValueError(text)
        datetime.strptime(text + START[len(text) :], "%Y-%m-%dT%H:%M:%S")
    except ValueError:
        raise OptionError(
            f"{leaf.field} is a date, {leaf.value!r} is not; write 2020, 2020-07, 2020-07-04 or "
            "'2020-07-04T12:30'"
        ) from None
    return text
