"""A filter as SQL over the table of fields, with every value bound.

Numbers and text stand in that table as they are, not as JSON, so that a comparison in SQL is the
one in `where.matches`, to the last bit.
"""

from __future__ import annotations

from diverset.index.where import And, Compare, Not, Or, Value, Where, kind

Bound = tuple[str, list[Value]]


def to_sql(where: Where) -> Bound:
    """A condition on `items.row`, and its values.

    >>> to_sql(Compare("year", ">", 2000))[1]
    ['year', 'number', 2000]
    """
    match where:
        case Compare(field, sign, value):
            if kind(value) == "truth" and sign != "=":
                return "0", []
            found = f"SELECT row FROM fields WHERE name = ? AND kind = ? AND value {sign} ?"
            return f"items.row IN ({found})", [field, kind(value), value]
        case Not(part):
            condition, values = to_sql(part)
            return f"NOT ({condition})", values
        case And(parts):
            return _joined(parts, " AND ")
        case Or(parts):
            return _joined(parts, " OR ")


def _joined(parts: tuple[Where, ...], word: str) -> Bound:
    """As a balanced tree: SQLite takes no expression deeper than 1,000, and a list is one."""
    if len(parts) == 1:
        return to_sql(parts[0])
    middle = len(parts) // 2
    (one, values), (other, more) = _joined(parts[:middle], word), _joined(parts[middle:], word)
    return f"({one}){word}({other})", values + more
