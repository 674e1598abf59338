"""What tests of stores share: small and clustered sets, and the simplest store there can be."""

from collections.abc import Iterator, Sequence

import numpy as np
import torch

from diverset.index.base import Hit, Metadata, Records, Settings
from diverset.index.checks import check_items, check_k, check_queries, wanted_ids
from diverset.index.explain import explain
from diverset.index.where import matches, parse
from diverset.similarity import smooth_chamfer

SETTINGS = Settings(model="feedc0de", slots=3, dim=8)


def unit(values: np.ndarray) -> np.ndarray:
    return (values / np.linalg.norm(values, axis=-1, keepdims=True)).astype(np.float32)


def some_sets(count: int, slots: int = 3, dim: int = 8, seed: int = 0) -> np.ndarray:
    return unit(np.random.default_rng(seed).normal(size=(count, slots, dim)))


def clustered_sets(
    count: int, slots: int, dim: int, clusters: int = 100, seed: int = 0
) -> np.ndarray:
    """Elements near the elements of one of few sets, as those of real pictures are."""
    chance = np.random.default_rng(seed)
    centres = np.random.default_rng(99).normal(size=(clusters, slots, dim))
    noise = chance.normal(size=(count, slots, dim))
    return unit(centres[chance.integers(clusters, size=count)] + 0.7 * noise)


def exact_scores(queries: np.ndarray, sets: np.ndarray, alpha: float = 16.0) -> np.ndarray:
    return smooth_chamfer(torch.from_numpy(queries), torch.from_numpy(sets), alpha).numpy()


class MemoryStore:
    """A dictionary that is scanned: what every store must agree with."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self.items: dict[str, tuple[np.ndarray, Metadata]] = {}

    def add(
        self, ids: Sequence[str], sets: np.ndarray, metadata: Sequence[Metadata] | None = None
    ) -> None:
        items = check_items(self.settings, ids, sets, metadata)
        for one, elements, fields in zip(items.ids, items.sets, items.metadata, strict=True):
            self.items[one] = (elements, fields)

    def delete(self, ids: Sequence[str]) -> int:
        return sum(self.items.pop(one, None) is not None for one in wanted_ids(ids))

    def search(self, queries: np.ndarray, k: int = 10, where: str | None = None) -> list[list[Hit]]:
        checked, limit = check_queries(self.settings, queries), check_k(k)
        chosen = self._chosen(where)
        return [self._hits(query, chosen)[:limit] for query in checked]

    def count(self, where: str | None = None) -> int:
        return len(self._chosen(where))

    def walk(self, size: int = 1000) -> Iterator[Records]:
        ids = sorted(self.items)
        for start in range(0, len(ids), size):
            part = ids[start : start + size]
            sets = np.stack([self.items[one][0] for one in part])
            yield Records(part, sets, [self.items[one][1] for one in part])

    def close(self) -> None:
        pass

    def _chosen(self, where: str | None) -> list[str]:
        tree = None if where is None else parse(where)
        return [
            one for one, (_, fields) in self.items.items() if tree is None or matches(tree, fields)
        ]

    def _hits(self, query: np.ndarray, chosen: list[str]) -> list[Hit]:
        if not chosen:
            return []
        why = explain(query, np.stack([self.items[one][0] for one in chosen]), self.settings.alpha)
        hits = [
            Hit(one, float(score), self.items[one][1], contributions, cosines)
            for one, score, contributions, cosines in zip(chosen, *why, strict=True)
        ]
        return sorted(hits, key=lambda hit: (-hit.score, hit.id))
