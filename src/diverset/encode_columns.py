"""Columns of a table as metadata: what an index can hold and filters can compare.

It knows neither models nor files, only names and values.
"""

from __future__ import annotations

import datetime
import math
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from diverset.errors import DataError
from diverset.index.where import FIELD

LARGEST_WHOLE = 2**53  # what every engine compares; longer ones are names, such as those of posts
# Without leading zeros: 007 and 01234 are names as well.
_WHOLE = re.compile(r"[+-]?(0|[1-9][0-9]*)\Z")
_FLOAT = re.compile(r"[+-]?(0|[1-9][0-9]*)?(\.[0-9]*)?([eE][+-]?[0-9]+)?\Z")


def check_columns(file: Path, names: Sequence[str]) -> None:
    """Raise unless filters can name every column."""
    for name in names:
        if not FIELD.match(name):
            raise DataError(
                f"column {name!r} of {file} cannot be kept as metadata, which filters know by "
                "plain names; rename it with letters, digits and underscores"
            )


def column_values(values: Sequence[Any], text: bool) -> list[Any]:
    """The values of a column as an index takes them in.

    Dates become text that sorts like them, NaN becomes null. A column that was read as text and
    holds nothing but numbers and empty cells becomes numbers and nulls.

    >>> column_values(["2019", "", "2020.5"], text=True)
    [2019, None, 2020.5]
    >>> column_values(["2019", "unknown"], text=True)
    ['2019', 'unknown']
    """
    if not text:
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
    """The number that a cell is; None where it is none that every store compares."""
    if _WHOLE.match(cell):
        whole = int(cell) if len(cell) < 20 else LARGEST_WHOLE + 1
        return whole if abs(whole) <= LARGEST_WHOLE else None
    if not _FLOAT.match(cell) or not any(letter.isdigit() for letter in cell):
        return None
    try:
        found = float(cell)
    except ValueError:
        return None
    return found if math.isfinite(found) else None
