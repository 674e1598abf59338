"""Filters as SQL over a jsonb column, with the meaning that `filter_language` defines.

Fields and values are always bound parameters. A comparison is never NULL, so that `not` holds for
items without the field. Numbers are compared as jsonb, whose decimals keep the order of float64;
text is compared by code point.
"""

from __future__ import annotations

import json
from typing import NamedTuple

from psycopg import sql

from diverset.engines.settings import check_compared
from diverset.errors import OptionError
from diverset.index.filter_language import (
    TEXT_OPERATORS,
    And,
    Compare,
    Filter,
    Not,
    Or,
    is_storable,
)
from diverset.index.filter_parser import parse

_COMPARISONS = {
    "contains": "strpos(metadata ->> {field}::text, {value}::text) > 0",
    "startswith": "starts_with(metadata ->> {field}::text, {value}::text)",
}
_KINDS = {str: "string", int: "number", float: "number", bool: "boolean"}


class Condition(NamedTuple):
    """A condition for WHERE, and its parameters."""

    text: sql.Composed
    values: dict[str, str]


def to_sql(filter: str | None) -> Condition:
    """A filter as a condition on the column `metadata`; no filter is always true.

    >>> to_sql("place = 'Rome'").values
    {'field0': 'place', 'kind0': 'string', 'value0': '"Rome"'}
    """
    values: dict[str, str] = {}
    tree = And(()) if filter is None else parse(filter)
    return Condition(_compose(tree, values), values)


def _compose(tree: Filter, values: dict[str, str]) -> sql.Composed:
    condition: sql.Composable
    match tree:
        case And(parts):
            conditions = (_compose(part, values) for part in parts)
            condition = sql.SQL(" AND ").join([sql.SQL("TRUE"), *conditions])
        case Or(parts):
            condition = sql.SQL(" OR ").join(_compose(part, values) for part in parts)
        case Not(part):
            condition = sql.SQL("NOT ") + _compose(part, values)
        case Compare():
            condition = _comparison(tree, values)
    return sql.SQL("({})").format(condition)


def _comparison(leaf: Compare, values: dict[str, str]) -> sql.Composable:
    operator, value = leaf.operator, leaf.value
    if isinstance(value, bool) and operator != "=":
        return sql.SQL("FALSE")
    if isinstance(value, str) and not is_storable(value):
        if operator == "=" or operator in TEXT_OPERATORS:
            return sql.SQL("FALSE")  # PostgreSQL cannot store such text, so nothing contains it
        raise OptionError(
            f"the filter orders {leaf.field} by text with a NUL or a lone surrogate, which "
            "PostgreSQL cannot; remove it"
        )
    if not isinstance(value, (bool, str)):
        check_compared(leaf.field, value)
    names = [f"{name}{len(values) // 3}" for name in ("field", "kind", "value")]
    as_text = isinstance(value, str) and operator != "="
    bound = value if as_text else json.dumps(value)
    values |= dict(zip(names, (leaf.field, _KINDS[type(value)], str(bound)), strict=True))
    field, kind, compared = (sql.Placeholder(name) for name in names)
    comparison = _COMPARISONS.get(
        operator,
        'metadata ->> {field}::text COLLATE "C" {operator} {value}::text COLLATE "C"'
        if as_text
        else "metadata -> {field}::text {operator} {value}::jsonb",
    )
    same_kind = "jsonb_typeof(metadata -> {field}::text) = {kind}::text"
    return sql.SQL("COALESCE(" + same_kind + " AND " + comparison + ", FALSE)").format(
        field=field, kind=kind, value=compared, operator=sql.SQL(operator)
    )
