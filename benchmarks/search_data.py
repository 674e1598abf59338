"""The collections that search.py measures: generated sets of several kinds, and sets of a file."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

ELEMENTS, DIM = 4, 256
PORTION = 20_000  # items generated at once


@dataclass(frozen=True)
class Kind:
    """How sets are generated.

    Attributes:
        within: noise of the elements of a set; it determines their circular variance.
        spread: noise of items around their cluster's center; None: items have no clusters.
    """

    within: float
    spread: float | None = None


KINDS = {
    "clustered": Kind(within=0.5, spread=0.6),  # circular variance 0.08
    "unclustered-0.02": Kind(within=0.236),  # circular variance 0.02
    "unclustered-0.2": Kind(within=0.961),  # circular variance 0.2
}


class Generated:
    """Sets around random items, clustered or not; the same in every pass."""

    def __init__(self, count: int, kind: Kind, dim: int = DIM) -> None:
        self.count, self.kind, self.dim = count, kind, dim
        rng = np.random.default_rng(0)
        self.centers = unit(rng.standard_normal((max(10, count // 100), dim), dtype=np.float32))

    def __iter__(self) -> Iterator[np.ndarray]:
        for start in range(0, self.count, PORTION):
            yield self.draw(min(PORTION, self.count - start), start + 1)

    def draw(self, count: int, seed: int) -> np.ndarray:
        rng = np.random.default_rng(seed)
        centers = self.centers[rng.integers(len(self.centers), size=count)]
        items = rng.standard_normal((count, self.dim), dtype=np.float32)
        if self.kind.spread is not None:
            items = centers + self.kind.spread / self.dim**0.5 * items
        noise = rng.standard_normal((count, ELEMENTS, self.dim), dtype=np.float32)
        return unit(unit(items)[:, None] + self.kind.within / self.dim**0.5 * noise)


class FromFiles:
    """The first sets of a file, and queries from another."""

    def __init__(self, sets: np.ndarray, queries: np.ndarray) -> None:
        self.sets, self.queries, self.count = sets, queries, len(sets)

    def __iter__(self) -> Iterator[np.ndarray]:
        return (self.sets[start : start + PORTION] for start in range(0, self.count, PORTION))

    def draw(self, count: int, seed: int) -> np.ndarray:
        rows = np.random.default_rng(seed).permutation(len(self.queries))[:count]
        return np.ascontiguousarray(self.queries[rows])


Data = Generated | FromFiles


def collections(
    kinds: list[str], sizes: list[int], sets: str | None, queries: str | None, dim: int = DIM
) -> dict[str, Data]:
    """Collections by name, small ones first; those of a file have every size that it has."""
    found: dict[str, Data] = {}
    for size in sizes:
        for kind in kinds:
            found[f"{kind}-{size}"] = Generated(size, KINDS[kind], dim)
        if sets and queries:
            stored, asked = np.load(sets, mmap_mode="c"), np.load(queries, mmap_mode="c")
            if len(stored) >= size:
                found[f"file-{size}"] = FromFiles(stored[:size], asked)
    return found


def unit(values: np.ndarray) -> np.ndarray:
    return values / np.linalg.norm(values, axis=-1, keepdims=True)


def vectors(sets: np.ndarray) -> np.ndarray:
    """One vector per item."""
    return unit(sets.mean(axis=1))
