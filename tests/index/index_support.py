"""Small sets and indexes for tests."""

from pathlib import Path

import numpy as np

from diverset.index import IndexSettings, SetIndex

SETTINGS = IndexSettings(model="model-a", elements=3, dim=16)


def make_sets(
    count: int, seed: int = 0, elements: int = 3, dim: int = 16, within: float = 0.4
) -> np.ndarray:
    """Clustered sets: elements around an item, items around a few centers."""
    rng = np.random.default_rng(seed)
    centers = rng.normal(size=(5, dim))
    items = centers[rng.integers(5, size=count)] + 0.5 * rng.normal(size=(count, dim))
    sets = items[:, None] + within * np.sqrt(2) * rng.normal(size=(count, elements, dim))
    return (sets / np.linalg.norm(sets, axis=2, keepdims=True)).astype(np.float32)


def make_index(folder: Path, count: int = 0, seed: int = 0, **options: object) -> SetIndex:
    index = SetIndex.create(folder / "index", SETTINGS)
    if count:
        index.add([f"id{n}" for n in range(count)], make_sets(count, seed), **options)
    return index


def naive_top(queries: np.ndarray, sets: np.ndarray, k: int, alpha: float = 16.0) -> list[list]:
    """Smooth-Chamfer by its formula, one pair at a time, in float64."""
    results = []
    for query in queries.astype(np.float64):
        scores = []
        for stored in sets.astype(np.float64):
            weights = np.exp(alpha * query @ stored.T)
            there, back = np.log(weights.sum(axis=1)).mean(), np.log(weights.sum(axis=0)).mean()
            scores.append((there + back) / (2 * alpha))
        best = np.argsort(-np.array(scores), kind="stable")[:k]
        results.append([(int(item), scores[item]) for item in best])
    return results
