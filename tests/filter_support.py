"""Filters for tests of every store: items with unusual metadata, and random trees."""

import json
import operator
from collections.abc import Mapping

from hypothesis import strategies as st

from diverset.index.filter_language import TEXT_OPERATORS, And, Compare, Filter, Not, Or, kind

COMPARE = {
    "=": operator.eq,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
    "contains": operator.contains,
    "startswith": str.startswith,
}

HOSTILE = ["", "'", "''", '"', "%s", "%(k)s", "{}", "\\", "'; DROP TABLE x; --", "$1", "a\nb", "ä",
           "\U0001f600", "null", "true", "1", "é", "e\u0301", "Z", "a"]  # fmt: skip
NUMBERS = [0, 1, -1, 2, 0.1, 0.2, 0.5, -0.0, 1.0, 1e300, 5e-324, 2**53, float(2**53), 1e23, 3]
VALUES = [*HOSTILE, *NUMBERS, True, False]
FIELDS = ["a", "b", "metadata", "id", "_x1"]
METADATA = [
    {field: value}
    for index, value in enumerate([*VALUES, None])
    for field in (FIELDS[index % 5], FIELDS[(index + 1) % 5])
] + [{}, {"a": 1, "b": "1", "_x1": True}, {"a": "Z", "b": 2, "id": None}]

UNSTORABLE = ["\0", "a\0b"]  # half a surrogate pair does not parse
values = st.sampled_from([*VALUES, *UNSTORABLE])
compares = st.builds(
    Compare, st.sampled_from(FIELDS), st.sampled_from(["=", "<", "<=", ">", ">="]), values
) | st.builds(
    Compare,
    st.sampled_from(FIELDS),
    st.sampled_from(TEXT_OPERATORS),
    st.sampled_from([*HOSTILE, *UNSTORABLE]),
)
trees = st.recursive(
    compares,
    lambda inner: st.one_of(
        st.builds(And, st.lists(inner, min_size=2, max_size=3).map(tuple)),
        st.builds(Or, st.lists(inner, min_size=2, max_size=3).map(tuple)),
        st.builds(Not, inner),
    ),
    max_leaves=6,
)


def matches(tree: Filter, metadata: Mapping[str, object]) -> bool:
    """Whether an item's metadata match a filter: what every store has to agree with."""
    match tree:
        case And(parts):
            return all(matches(part, metadata) for part in parts)
        case Or(parts):
            return any(matches(part, metadata) for part in parts)
        case Not(part):
            return not matches(part, metadata)
        case Compare(field, sign, value):
            stored = metadata.get(field)
            if kind(stored) != kind(value) or (kind(value) == "bool" and sign != "="):
                return False
            return COMPARE[sign](stored, value)


def to_text(tree: Filter) -> str:
    """A tree as text that parses to it."""
    match tree:
        case And(parts):
            return "(" + " and ".join(to_text(part) for part in parts) + ")"
        case Or(parts):
            return "(" + " or ".join(to_text(part) for part in parts) + ")"
        case Not(part):
            return f"not ({to_text(part)})"
        case Compare(field, operator, value):
            if isinstance(value, str):
                return f"{field} {operator} '" + value.replace("'", "''") + "'"
            return f"{field} {operator} {json.dumps(value)}"


def leaves(tree: Filter) -> list[Compare]:
    match tree:
        case And(parts) | Or(parts):
            return [leaf for part in parts for leaf in leaves(part)]
        case Not(part):
            return leaves(part)
        case Compare():
            return [tree]


def orders_text(tree: Filter, by: list[str] | None = None) -> bool:
    return any(
        isinstance(leaf.value, str)
        and leaf.operator in ("<", "<=", ">", ">=")
        and (by is None or leaf.value in by)
        for leaf in leaves(tree)
    )


def compares_parts_of_text(tree: Filter) -> bool:
    return any(leaf.operator in TEXT_OPERATORS for leaf in leaves(tree))
