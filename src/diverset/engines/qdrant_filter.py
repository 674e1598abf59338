"""Filters of Qdrant, with the meaning that `diverset.index.filter_language` defines.

Numbers are compared by ranges, since Qdrant's exact match does not support floating point. Qdrant
can only compare text for equality, so `name < 'm'` and `name contains 'm'` are rejected.
"""

from __future__ import annotations

from qdrant_client import models

from diverset.engines.settings import check_compared
from diverset.errors import OptionError
from diverset.index.filter_language import And, Compare, Filter, Not, Or, is_storable
from diverset.index.filter_parser import parse

METADATA = "metadata"  # the payload key of an item's metadata
_BOUNDS = {"=": ("gte", "lte"), "<": ("lt",), "<=": ("lte",), ">": ("gt",), ">=": ("gte",)}


def to_qdrant(filter: str | None) -> models.Filter | None:
    """A filter in Qdrant's form; None for no filter.

    >>> to_qdrant("year >= 2020").must[0].range.gte
    2020.0
    """
    return None if filter is None else _convert(parse(filter))


def _convert(tree: Filter) -> models.Filter:
    match tree:
        case And(parts):
            return models.Filter(must=[_convert(part) for part in parts])
        case Or(parts):
            return models.Filter(should=[_convert(part) for part in parts])
        case Not(part):
            return models.Filter(must_not=[_convert(part)])
        case Compare():
            return _comparison(tree)


def _comparison(leaf: Compare) -> models.Filter:
    key, operator, value = f"{METADATA}.{leaf.field}", leaf.operator, leaf.value
    if isinstance(value, bool):
        return _equal(key, value) if operator == "=" else _never(key)
    if isinstance(value, str):
        if operator != "=":
            raise OptionError(
                f"the filter has {leaf.field} {operator} {value!r}, which Qdrant cannot evaluate; "
                "compare text by = and !=, or store the field as a number"
            )
        return _equal(key, value) if is_storable(value) else _never(key)
    check_compared(leaf.field, value)
    bounds = models.Range(**{bound: float(value) for bound in _BOUNDS[operator]})
    return models.Filter(must=[models.FieldCondition(key=key, range=bounds)])


def _equal(key: str, value: str | bool) -> models.Filter:
    condition = models.FieldCondition(key=key, match=models.MatchValue(value=value))
    return models.Filter(must=[condition])


def _never(key: str) -> models.Filter:
    """A contradiction, for comparisons that are never true such as `night < true`."""
    empty = models.IsEmptyCondition(is_empty=models.PayloadField(key=key))
    return models.Filter(must=[empty], must_not=[empty])
