"""A filter as SQL over the table of metadata fields, with every value bound.

The table stores numbers and text as native values, not as JSON, so that a comparison in SQL equals
the one in Python, to the last bit.
"""

from __future__ import annotations

from diverset.index.filter_language import And, Compare, Filter, Not, Or, Value, kind

Condition = tuple[str, list[Value]]
_COMPARISONS = {
    "contains": "instr(value, ?) > 0",
    "startswith": "substr(value, 1, length(?)) = ?",
}


def to_sql(tree: Filter) -> Condition:
    """A condition on `items.row`, and its values.

    >>> to_sql(Compare("year", ">", 2000))[1]
    ['year', 'number', 2000]
    """
    match tree:
        case Compare(field, operator, value):
            if kind(value) == "bool" and operator != "=":
                return "0", []
            comparison = _COMPARISONS.get(operator, f"value {operator} ?")
            rows = f"SELECT row FROM fields WHERE name = ? AND kind = ? AND {comparison}"
            values = [value] * comparison.count("?")
            return f"items.row IN ({rows})", [field, kind(value), *values]
        case Not(part):
            condition, values = to_sql(part)
            return f"NOT ({condition})", values
        case And(parts):
            return _join(parts, " AND ")
        case Or(parts):
            return _join(parts, " OR ")


def _join(parts: tuple[Filter, ...], word: str) -> Condition:
    """As a balanced tree: SQLite nests a plain list, and limits the depth to 1,000."""
    if len(parts) == 1:
        return to_sql(parts[0])
    middle = len(parts) // 2
    left, left_values = _join(parts[:middle], word)
    right, right_values = _join(parts[middle:], word)
    return f"({left}){word}({right})", left_values + right_values
