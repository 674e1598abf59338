"""Filters as SQL over a jsonb column, meaning exactly what `diverset.index.where.matches` means.

Fields and values are always bound parameters. A comparison is never NULL, so that `not` holds for
items without the field; numbers are compared as jsonb, whose decimals keep the order of float64,
and text by code point.
"""

from __future__ import annotations

import json
from typing import NamedTuple

from psycopg import sql

from diverset.engines.settings import check_compared
from diverset.errors import OptionError
from diverset.index.checks import is_storable
from diverset.index.where import And, Compare, Not, Or, Where

_SIGNS = {sign: sql.SQL(sign) for sign in ("=", "<", "<=", ">", ">=")}
_KINDS = {str: "string", int: "number", float: "number", bool: "boolean"}


class Condition(NamedTuple):
    """What stands after WHERE, and the parameters that it names."""

    text: sql.Composed
    values: dict[str, str]


def to_sql(where: Where | None) -> Condition:
    """A filter tree as a condition on the column `metadata`; none is always true.

    >>> from diverset.index.where import parse
    >>> to_sql(parse("place = 'Rome'")).values
    {'field0': 'place', 'kind0': 'string', 'value0': '"Rome"'}
    """
    values: dict[str, str] = {}
    always = sql.Composed([sql.SQL("TRUE")])
    return Condition(always if where is None else _written(where, values), values)


def _written(where: Where, values: dict[str, str]) -> sql.Composed:
    joined: sql.Composable
    match where:
        case And(parts):
            joined = sql.SQL(" AND ").join(_written(part, values) for part in parts)
        case Or(parts):
            joined = sql.SQL(" OR ").join(_written(part, values) for part in parts)
        case Not(part):
            joined = sql.SQL("NOT ") + _written(part, values)
        case Compare():
            joined = _comparison(where, values)
    return sql.SQL("({})").format(joined)


def _comparison(where: Compare, values: dict[str, str]) -> sql.Composable:
    sign, value = where.sign, where.value
    if isinstance(value, bool) and sign != "=":
        return sql.SQL("FALSE")
    if isinstance(value, str) and not is_storable(value):
        if sign == "=":
            return sql.SQL("FALSE")  # PostgreSQL holds no such text, so nothing equals it
        raise OptionError(
            f"the filter orders {where.field} by text with a NUL or a lone surrogate, which "
            "PostgreSQL cannot; remove it"
        )
    if not isinstance(value, (bool, str)):
        check_compared(where.field, value)
    number = len(values) // 3
    names = [f"{name}{number}" for name in ("field", "kind", "value")]
    ordered_text = isinstance(value, str) and sign != "="
    bound = value if ordered_text else json.dumps(value)
    values |= dict(zip(names, (where.field, _KINDS[type(value)], str(bound)), strict=True))
    field, kind, compared = (sql.Placeholder(name) for name in names)
    form = (
        'metadata ->> {field}::text COLLATE "C" {sign} {value}::text COLLATE "C"'
        if ordered_text
        else "metadata -> {field}::text {sign} {value}::jsonb"
    )
    return sql.SQL(
        "COALESCE(jsonb_typeof(metadata -> {field}::text) = {kind}::text AND " + form + ", FALSE)"
    ).format(field=field, kind=kind, value=compared, sign=_SIGNS[sign])
