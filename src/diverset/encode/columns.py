"""Columns of a table as metadata that indexes store and filters compare."""

from __future__ import annotations

import datetime
import math
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from diverset.errors import DataError
from diverset.index.filter_language import FIELD, MAX_INTEGER

# Without leading zeros: 007 and 01234 are codes, not numbers.
_INTEGER = re.compile(r"[+-]?(0|[1-9][0-9]*)\Z")
_FLOAT = re.compile(r"[+-]?(0|[1-9][0-9]*)?(\.[0-9]*)?([eE][+-]?[0-9]+)?\Z")


def check_column_names(file: Path, names: Sequence[str]) -> None:
    """Raise unless filters can refer to every column."""
    for name in names:
        if not FIELD.match(name):
            raise DataError(
                f"column {name!r} of {file} cannot be used in filters; rename it with letters, "
                "digits and underscores"
            )


def column_values(values: Sequence[Any], is_text: bool) -> list[Any]:
    """The values of a column as an index stores them.

    Dates become ISO text, NaN becomes null. A column that was read as text and holds only numbers
    and empty cells becomes numbers and nulls.

    >>> column_values(["2019", "", "2020.5"], is_text=True)
    [2019, None, 2020.5]
    >>> column_values(["2019", "unknown"], is_text=True)
    ['2019', 'unknown']
    """
    if not is_text:
        return [_plain(value) for value in values]
    cells = [(value or "").strip() for value in values]
    numbers = [_number(cell) for cell in cells if cell]
    if not numbers or None in numbers:
        return list(values)
    return [_number(cell) if cell else None for cell in cells]


def _plain(value: Any) -> Any:
    if isinstance(value, float) and math.isnan(value):
        return None
    if isinstance(value, (datetime.date, datetime.time)):
        return value.isoformat()
    return value


def _number(cell: str) -> int | float | None:
    """The number in a cell; None if there is none that every store compares."""
    if _INTEGER.match(cell):  # long ones are ids, e.g. of posts
        return int(cell) if len(cell) < 20 and abs(int(cell)) <= MAX_INTEGER else None
    try:
        number = float(cell) if _FLOAT.match(cell) else math.nan
    except ValueError:  # no digits
        return None
    return number if math.isfinite(number) else None
