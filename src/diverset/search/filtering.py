"""Filters of people: a field that no picture has, or a number in the place of a text, is a mistake.

To an index such a comparison is simply false; to somebody who mistyped it, that looks as if there
were no such pictures.
"""

from __future__ import annotations

from diverset.errors import OptionError
from diverset.index import SetIndex
from diverset.index.where import comparisons, kind, parse

OWN = {
    "path": "text", "folder": "text", "name": "text", "bytes": "number", "width": "number",
    "height": "number", "modified": "text", "taken": "text",
}  # fmt: skip
"""Fields that pictures have, even where none of a library has one."""
WRITTEN = {"text": "'2020'", "number": "2020", "truth": "true"}


def check_filter(where: str | None, index: SetIndex) -> None:
    """Raise where a filter names an unknown field, or compares one with a value of another kind."""
    if where is None:
        return
    fields = {name: {kind_} for name, kind_ in OWN.items()}
    for name, kind_ in index.fields():
        fields.setdefault(name, set()).add(kind_)
    for one in comparisons(parse(where)):
        if one.field not in fields:
            raise OptionError(
                f"no picture has the field {one.field!r}; there are: {', '.join(sorted(fields))}"
            )
        if kind(one.value) not in fields[one.field]:
            [right, *_] = sorted(fields[one.field])
            raise OptionError(
                f"{one.field} is a {right}, {one.value!r} is not; write for example: "
                f"{one.field} {one.sign} {WRITTEN[right]}"
            )
