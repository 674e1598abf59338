"""`diverset demo`: draw scenes, train sets and a single vector, compare them, build a library."""

from diverset.reproduce.demo.demo import run_demo
from diverset.reproduce.demo.recipe import Budget

__all__ = ["Budget", "run_demo"]
