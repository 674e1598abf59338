"""Recipes by name: those in the folder recipes/ of the repository, which the package contains."""

from __future__ import annotations

from pathlib import Path

from diverset.errors import OptionError

PACKAGE = Path(__file__).parents[1]
FOLDERS = (PACKAGE / "recipes", PACKAGE.parents[1] / "recipes")  # installed, or in a clone


def named_recipes() -> dict[str, Path]:
    """The files of the recipes of this installation by name."""
    return {file.stem: file for folder in FOLDERS for file in sorted(folder.glob("*.yaml"))}


def recipe_path(name: str) -> Path:
    """The file of a recipe, given by its path or by its name.

    >>> recipe_path("photos").name
    'photos.yaml'
    """
    path, known = Path(name).expanduser(), named_recipes()
    if path.suffix in (".yaml", ".yml"):
        return path
    if name not in known:
        raise OptionError(
            f"there is no recipe {name!r}; give the path of a .yaml file, or one of: "
            f"{', '.join(known)}"
        )
    return known[name]
