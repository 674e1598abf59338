"""Filters to be tried on every store: items with awkward metadata, and random trees."""

import json

from hypothesis import strategies as st

from diverset.index.where import And, Compare, Not, Or, Where

HOSTILE = ["", "'", "''", '"', "%s", "%(k)s", "{}", "\\", "'; DROP TABLE x; --", "$1", "a\nb", "ä",
           "\U0001f600", "null", "true", "1", "é", "e\u0301", "Z", "a"]  # fmt: skip
NUMBERS = [0, 1, -1, 2, 0.1, 0.2, 0.5, -0.0, 1.0, 1e300, 5e-324, 2**53, float(2**53), 1e23, 3]
VALUES = [*HOSTILE, *NUMBERS, True, False]
FIELDS = ["a", "b", "metadata", "id", "_x1"]
METADATA = [
    {field: value}
    for place, value in enumerate([*VALUES, None])
    for field in (FIELDS[place % 5], FIELDS[(place + 1) % 5])
] + [{}, {"a": 1, "b": "1", "_x1": True}, {"a": "Z", "b": 2, "id": None}]

UNSTORABLE = ["\0", "a\0b"]  # half a surrogate pair is no filter at all
values = st.sampled_from([*VALUES, *UNSTORABLE])
compares = st.builds(
    Compare, st.sampled_from(FIELDS), st.sampled_from(["=", "<", "<=", ">", ">="]), values
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


def written(where: Where) -> str:
    """A tree as the text that reads as it."""
    match where:
        case And(parts):
            return "(" + " and ".join(written(part) for part in parts) + ")"
        case Or(parts):
            return "(" + " or ".join(written(part) for part in parts) + ")"
        case Not(part):
            return f"not ({written(part)})"
        case Compare(field, sign, value):
            if isinstance(value, str):
                return f"{field} {sign} '" + value.replace("'", "''") + "'"
            return f"{field} {sign} {json.dumps(value)}"


def leaves(where: Where) -> list[Compare]:
    match where:
        case And(parts) | Or(parts):
            return [leaf for part in parts for leaf in leaves(part)]
        case Not(part):
            return leaves(part)
        case Compare():
            return [where]


def orders_text(where: Where, by: list[str] | None = None) -> bool:
    return any(
        isinstance(leaf.value, str) and leaf.sign != "=" and (by is None or leaf.value in by)
        for leaf in leaves(where)
    )
