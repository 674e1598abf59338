"""Types shared by the embedded index and the engines: settings, hits and the store protocol."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from numbers import Real
from typing import TYPE_CHECKING, Protocol

import numpy as np
from jaxtyping import Float

from diverset.errors import OptionError, check_choice, check_count
from diverset.index.explain import contributions

if TYPE_CHECKING:
    from diverset.model import Model

SIMILARITIES = ("smooth_chamfer",)
MIN_ALPHA, MAX_ALPHA = 1e-2, 1e4  # the float32 bounds of the scan are proven for this range
Scalar = str | int | float | bool | None
Metadata = Mapping[str, Scalar]
Sets = Float[np.ndarray, "items elements dim"]


@dataclass(frozen=True)
class IndexSettings:
    """Which sets an index holds and how it compares them; stored with it, checked on opening.

    Attributes:
        model: fingerprint of the model that produced the sets.
        elements: number of elements in a stored set; queries may have a different number.
        dim: dimension of an element.
        similarity: a name in `SIMILARITIES`.
        alpha: scaling of smooth-Chamfer, from `MIN_ALPHA` to `MAX_ALPHA`.
    """

    model: str
    elements: int
    dim: int
    similarity: str = "smooth_chamfer"
    alpha: float = 16.0

    def __post_init__(self) -> None:
        check_choice("similarity", self.similarity, SIMILARITIES)
        for name in ("elements", "dim"):
            # As an int, since JSON has no numpy integers.
            object.__setattr__(self, name, check_count(name, getattr(self, name)))
        if not isinstance(self.alpha, Real) or not MIN_ALPHA <= self.alpha <= MAX_ALPHA:
            raise OptionError(
                f"alpha is {self.alpha!r}; give a number from {MIN_ALPHA:g} to {MAX_ALPHA:g}"
            )
        object.__setattr__(self, "alpha", float(self.alpha))

    @classmethod
    def for_model(cls, model: Model, elements: int) -> IndexSettings:
        """Settings for the sets of a model; `elements` is `sets.shape[1]`."""
        if not model.has_sets:
            raise OptionError("the model compares local features; an index needs sets of one size")
        dim, similarity = model.config.dim, model.config.similarity
        return cls(model.fingerprint(), elements, dim, similarity.kind, similarity.alpha)


@dataclass(frozen=True)
class Hit:
    """A search result.

    Attributes:
        id: of the item.
        score: similarity to the query, larger is better.
        metadata: stored with the item.
        cosines: cosine of every pair of elements, query elements in rows.
        alpha: scaling of smooth-Chamfer, for `contributions`.
    """

    id: str
    score: float
    metadata: Metadata
    cosines: Float[np.ndarray, "query_elements elements"] = field(repr=False, compare=False)
    alpha: float = field(repr=False)

    @cached_property
    def contributions(self) -> Float[np.ndarray, "query_elements elements"]:
        """d score / d cosine of every pair (Eq. 8): non-negative, sums to one."""
        return contributions(self.cosines, self.alpha)


@dataclass(frozen=True)
class Records:
    """Items of a store: ids, sets and metadata, one each."""

    ids: list[str]
    sets: Sets
    metadata: list[Metadata]


class SetStore(Protocol):
    """Stores embedding sets and finds the most similar ones."""

    @property
    def settings(self) -> IndexSettings: ...

    def add(
        self, ids: Sequence[str], sets: Sets, metadata: Sequence[Metadata] | None = None
    ) -> None:
        """Add or replace items; durable when it returns."""

    def delete(self, ids: Sequence[str]) -> int:
        """Delete items; returns how many existed."""

    def search(
        self, queries: Sets, k: int = 10, filter: str | None = None, exact: bool = True
    ) -> list[list[Hit]]:
        """For each query set, the k most similar items that match the filter, best first.

        Args:
            queries: query sets; their number of elements may differ from the stored sets.
            k: number of hits; fewer are returned if fewer items match.
            filter: over metadata (`diverset.index.filter_parser`).
            exact: return the provably best hits. With False, only candidates whose mean is near
                that of the query are scored; recall may be below one.
        """

    def count(self, filter: str | None = None) -> int:
        """Number of items, or of those that match a filter."""

    def walk(self, size: int = 1000) -> Iterator[Records]:
        """All items in batches of at most `size`, ordered by id."""

    def close(self) -> None:
        """Close files and connections."""
