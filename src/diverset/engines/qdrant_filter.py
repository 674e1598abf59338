"""Filters in Qdrant's own terms, meaning exactly what `diverset.index.where.matches` means.

Numbers are compared by ranges, since Qdrant's exact match knows no floating point; text has no
order in Qdrant, so that `name < 'm'` is refused instead of meaning something else.
"""

from __future__ import annotations

from qdrant_client import models

from diverset.engines.settings import check_compared
from diverset.errors import OptionError
from diverset.index.checks import is_storable
from diverset.index.where import And, Compare, Not, Or, Where

METADATA = "metadata"  # the payload's key under which an item's metadata is


def to_qdrant(where: Where) -> models.Filter:
    """A filter tree as Qdrant's filter.

    >>> from diverset.index.where import parse
    >>> to_qdrant(parse("year >= 2020")).must[0].range.gte
    2020.0
    """
    match where:
        case And(parts):
            return models.Filter(must=[to_qdrant(part) for part in parts])
        case Or(parts):
            return models.Filter(should=[to_qdrant(part) for part in parts])
        case Not(part):
            return models.Filter(must_not=[to_qdrant(part)])
        case Compare():
            return _comparison(where)


def _comparison(where: Compare) -> models.Filter:
    key, sign, value = f"{METADATA}.{where.field}", where.sign, where.value
    if isinstance(value, bool):
        return _equal(key, value) if sign == "=" else _nothing(key)
    if isinstance(value, str):
        if sign != "=":
            raise OptionError(
                f"the filter orders text, {where.field} {sign} {value!r}, which Qdrant cannot; "
                "compare text by = and !=, or keep the field as a number"
            )
        return _equal(key, value) if is_storable(value) else _nothing(key)
    check_compared(where.field, value)
    bounds = {"=": ("gte", "lte"), "<": ("lt",), "<=": ("lte",), ">": ("gt",), ">=": ("gte",)}
    span = models.Range(**{bound: float(value) for bound in bounds[sign]})
    return models.Filter(must=[models.FieldCondition(key=key, range=span)])


def _equal(key: str, value: str | bool) -> models.Filter:
    found = models.FieldCondition(key=key, match=models.MatchValue(value=value))
    return models.Filter(must=[found])


def _nothing(key: str) -> models.Filter:
    """A contradiction: what can never be true, for example `night < true`."""
    empty = models.IsEmptyCondition(is_empty=models.PayloadField(key=key))
    return models.Filter(must=[empty], must_not=[empty])
