"""A row of a table: what is changed in a recipe, and what the paper reports for it.

It does not know of runs, files or numbers of ours.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from diverset.config import from_dict, to_dict
from diverset.errors import OptionError
from diverset.training.settings import Recipe


@dataclass(frozen=True)
class Row:
    """One row of a study.

    Attributes:
        name: as it stands in the table.
        changes: options of a recipe by their dotted names.
        paper: the paper's figures by the name of the metric.
        sibling: a method that may have a recipe of its own beside the one that is reproduced,
            which is then taken in place of the changes.
    """

    name: str
    changes: Mapping[str, Any] = field(default_factory=dict)
    paper: Mapping[str, float] = field(default_factory=dict)
    sibling: str = ""


def both_sets(**changes: Any) -> dict[str, Any]:
    """The same change in the set modules of both sides.

    >>> both_sets(size=1)
    {'model.image_set.size': 1, 'model.text_set.size': 1}
    """
    sides = ("image_set", "text_set")
    return {f"model.{side}.{name}": value for name, value in changes.items() for side in sides}


def changed(recipe: Recipe, changes: Mapping[str, Any]) -> Recipe:
    """A recipe with some options replaced; one that does not exist is refused by name.

    >>> changed(Recipe(), {"model.similarity.alpha": 4.0}).model.similarity.alpha
    4.0
    >>> changed(Recipe(), {"model.similarity.alfa": 4.0})
    Traceback (most recent call last):
    ...
    diverset.errors.OptionError: unknown option model.similarity.alfa; choose from: ...
    """
    plain = to_dict(recipe)
    for name, value in changes.items():
        *parts, last = name.split(".")
        place = plain
        for part in parts:
            place = place.get(part, {})
        if not isinstance(place, dict) or last not in place:
            known = ", ".join(place) if isinstance(place, dict) and place else "the recipe's own"
            raise OptionError(f"unknown option {name}; choose from: {known}")
        place[last] = value
    return from_dict(Recipe, plain)
