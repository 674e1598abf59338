"""`diverset demo`: draw scenes, train sets and a single vector, compare them in a report."""

from diverset.reproduce.demo.demo import run_demo
from diverset.reproduce.demo.recipe import scenes_recipe, single_vector

__all__ = ["run_demo", "scenes_recipe", "single_vector"]
