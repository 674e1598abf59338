"""The recipe of the demo and its single-vector control."""

from __future__ import annotations

from dataclasses import replace

from diverset.recipe.config import Recipe
from diverset.recipe.named import recipe_path
from diverset.recipe.run_folder import read_recipe
from diverset.reproduce.variants import both_sets, with_changes


def scenes_recipe() -> Recipe:
    """The recipe of the generated scenes."""
    return read_recipe(recipe_path("scenes"))


def single_vector(recipe: Recipe) -> Recipe:
    """The control: the same recipe with K = 1."""
    changed = with_changes(recipe, both_sets(size=1))
    return replace(changed, about=f"{recipe.about} (control: K = 1)")
