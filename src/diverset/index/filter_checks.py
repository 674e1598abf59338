"""Checking a filter against the fields that exist.

A comparison with an unknown field or a value of another kind is false. A user who mistyped it would
take that for an empty result, so it is an error.
"""

from __future__ import annotations

import difflib
from collections.abc import Mapping

from diverset.errors import OptionError
from diverset.index.filter_language import Compare, Filter, comparisons, kind

NAMES = {"text": "text", "number": "a number", "bool": "true or false"}
EXAMPLES = {"text": "'Rome'", "number": "2020", "bool": "true"}


def check_fields(tree: Filter, fields: Mapping[str, set[str]]) -> None:
    """Raise if a filter names an unknown field, or compares one with a value of another kind.

    `fields` maps names to the kinds of their values (`filter_language.kind`).

    >>> check_fields(Compare("yaer", ">", 2000), {"year": {"number"}})
    Traceback (most recent call last):
    ...
    diverset.errors.OptionError: there is no field 'yaer'; did you mean year? All fields: year
    """
    for leaf in comparisons(tree):
        if leaf.field not in fields:
            near = difflib.get_close_matches(leaf.field, fields, n=1)
            hint = f"did you mean {near[0]}? All fields" if near else "use one of"
            names = ", ".join(sorted(fields)) or "none"
            raise OptionError(f"there is no field {leaf.field!r}; {hint}: {names}")
        _check_kind(leaf, fields[leaf.field])


def _check_kind(leaf: Compare, kinds: set[str]) -> None:
    given = kind(leaf.value)
    if given not in kinds:
        expected = " or ".join(NAMES[name] for name in sorted(kinds))
        example = EXAMPLES[min(kinds)]
        raise OptionError(
            f"{leaf.field} is {expected}, {leaf.value!r} is {NAMES[given]}; "
            f"for example: {leaf.field} = {example}"
        )
    if given == "bool" and leaf.operator != "=":
        raise OptionError(f"{leaf.field} is true or false; compare it by = or !=")
