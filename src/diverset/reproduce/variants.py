"""One row of a table: a change to a recipe, and what the paper reports for it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from diverset.config import from_dict
from diverset.recipe.config import Recipe


@dataclass(frozen=True)
class Variant:
    """A recipe with some options changed, trained with several seeds.

    Attributes:
        name: as in the table.
        changes: new values by the dotted name of the option.
        paper: the paper's numbers by metric.
        recipe: a method with its own recipe file, "pvse" for coco_pvse.yaml; where the file
            exists and has the same backbones, it is used instead of the changes.
    """

    name: str
    changes: Mapping[str, Any] = field(default_factory=dict)
    paper: Mapping[str, float] = field(default_factory=dict)
    recipe: str | None = None


def both_sets(**changes: Any) -> dict[str, Any]:
    """The same change to the set modules of both sides.

    >>> both_sets(size=1)
    {'model.image_set.size': 1, 'model.text_set.size': 1}
    """
    sides = ("image_set", "text_set")
    return {f"model.{side}.{name}": value for name, value in changes.items() for side in sides}


def with_changes(recipe: Recipe, changes: Mapping[str, Any]) -> Recipe:
    """A recipe with some options replaced; an unknown option is rejected by name.

    >>> with_changes(Recipe(), {"model.similarity.alpha": 4.0}).model.similarity.alpha
    4.0
    >>> with_changes(Recipe(), {"model.similarity.alfa": 4.0})
    Traceback (most recent call last):
    ...
    diverset.errors.OptionError: unknown option model.similarity.alfa; choose from: ...
    """
    nested = asdict(recipe)
    for name, value in changes.items():
        *path, last = name.split(".")
        section = nested
        for part in path:
            section = section.setdefault(part, {})
        section[last] = value
    return from_dict(Recipe, nested)
