"""What every place that stores and searches embedding sets agrees on.

`SetStore` is the contract of the embedded index and of the engines; `Settings` says which sets
belong together; `Hit` is one answer. Nothing here stores or computes anything.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import repeat
from numbers import Integral, Real
from typing import Protocol

import numpy as np
from jaxtyping import Float

from diverset.errors import OptionError, check_choice
from diverset.index.explain import Why

SIMILARITIES = ("smooth_chamfer",)
LEAST_ALPHA, LARGEST_ALPHA = 1e-2, 1e4  # between them, float32 bounds are known to hold
Scalar = str | int | float | bool | None
Metadata = Mapping[str, Scalar]
Sets = Float[np.ndarray, "items slots dim"]


@dataclass(frozen=True)
class Settings:
    """Which sets an index holds and how it compares them; stored with it, checked on opening.

    Attributes:
        model: fingerprint of the model that made the sets.
        slots: elements in a stored set; queries may have another number.
        dim: width of an element.
        similarity: a name in `SIMILARITIES`.
        alpha: of smooth-Chamfer, from `LEAST_ALPHA` to `LARGEST_ALPHA`.
    """

    model: str
    slots: int
    dim: int
    similarity: str = "smooth_chamfer"
    alpha: float = 16.0

    def __post_init__(self) -> None:
        check_choice("similarity", self.similarity, SIMILARITIES)
        for name in ("slots", "dim"):
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, Integral) or value < 1:
                raise OptionError(f"{name} is {value!r}; give a whole number above 0")
            object.__setattr__(self, name, int(value))  # as plain numbers, they can be stored
        if not isinstance(self.alpha, Real) or not LEAST_ALPHA <= self.alpha <= LARGEST_ALPHA:
            raise OptionError(
                f"alpha is {self.alpha!r}; give a number from {LEAST_ALPHA:g} to {LARGEST_ALPHA:g}"
            )
        object.__setattr__(self, "alpha", float(self.alpha))


class _Found:
    """Where the arrays of a hit are, as long as nobody has asked for them."""

    __slots__ = ("_place", "_why")
    _why: Why
    _place: int


@dataclass(frozen=True, slots=True)
class Hit(_Found):
    """One found item, and why it was found.

    Attributes:
        id: of the item.
        score: smooth-Chamfer similarity to the query, larger is better.
        metadata: what was stored with it.
        contributions: d score / d cosine for every pair of elements (Eq. 8), query elements in
            rows; non-negative, summing to one: which element matched which.
        cosines: the cosines of the same pairs.
    """

    id: str
    score: float
    metadata: Metadata
    contributions: Float[np.ndarray, "query_slots slots"] = field(repr=False)
    cosines: Float[np.ndarray, "query_slots slots"] = field(repr=False)

    def __getattr__(self, name: str) -> Float[np.ndarray, "query_slots slots"]:
        """Called where an attribute is not set yet: an array of a hit that `hits_of` made."""
        if name not in ("contributions", "cosines"):
            raise AttributeError(f"a hit has no attribute {name!r}")
        found: Float[np.ndarray, "query_slots slots"]
        found = getattr(self._why, name)[self._place]
        object.__setattr__(self, name, found)
        return found


def hits_of(
    ids: Sequence[str],
    scores: Sequence[float],
    metadata: Sequence[Metadata],
    why: Why,
) -> list[Hit]:
    """Many hits at once, in a third of the time that their constructor takes.

    Args:
        ids: of the items.
        scores: one each.
        metadata: one each.
        why: of all of them; a hit takes its own when it is asked for it.
    """
    hits = list(map(Hit.__new__, repeat(Hit, len(ids))))
    values = {"id": ids, "score": scores, "metadata": metadata}
    for name, each in {**values, "_why": repeat(why), "_place": range(len(ids))}.items():
        any(map(getattr(Hit, name).__set__, hits, each))  # all of them, since it returns None
    return hits


@dataclass(frozen=True)
class Records:
    """Some items of a store, as they are copied from one to another."""

    ids: list[str]
    sets: Sets
    metadata: list[Metadata]


class SetStore(Protocol):
    """A place that stores embedding sets and finds the most similar ones."""

    @property
    def settings(self) -> Settings: ...

    def add(
        self, ids: Sequence[str], sets: Sets, metadata: Sequence[Metadata] | None = None
    ) -> None:
        """Store sets under their ids, replacing those that exist; durable once it returns."""
        ...

    def delete(self, ids: Sequence[str]) -> int:
        """Forget items; says how many of them were there."""
        ...

    def search(self, queries: Sets, k: int = 10, where: str | None = None) -> list[list[Hit]]:
        """For each query set the k most similar items that pass the filter, best first."""
        ...

    def count(self, where: str | None = None) -> int:
        """How many items there are, or pass a filter (`diverset.index.where`)."""
        ...

    def walk(self, size: int = 1000) -> Iterator[Records]:
        """All items, in parts of at most `size`, in the order of their ids."""
        ...

    def close(self) -> None:
        """Let go of files and connections."""
        ...
