"""Small sets and indexes for the tests of this folder."""

from pathlib import Path

import numpy as np

from diverset.index import SetIndex, Settings

SETTINGS = Settings(model="model-a", slots=3, dim=16)


def make_sets(
    count: int, seed: int = 0, slots: int = 3, dim: int = 16, within: float = 0.4
) -> np.ndarray:
    """Clustered sets: elements around an item, items around a few centers."""
    random = np.random.default_rng(seed)
    centers = random.normal(size=(5, dim))
    items = centers[random.integers(5, size=count)] + 0.5 * random.normal(size=(count, dim))
    sets = items[:, None] + within * np.sqrt(2) * random.normal(size=(count, slots, dim))
    return (sets / np.linalg.norm(sets, axis=2, keepdims=True)).astype(np.float32)


def make_index(folder: Path, count: int = 0, seed: int = 0, **options: object) -> SetIndex:
    index = SetIndex.create(folder / "index", SETTINGS)
    if count:
        index.add([f"id{n}" for n in range(count)], make_sets(count, seed), **options)
    return index


def naive_top(queries: np.ndarray, sets: np.ndarray, k: int, alpha: float = 16.0) -> list[list]:
    """Smooth-Chamfer by its formula, one pair at a time, in float64."""
    found = []
    for query in queries.astype(np.float64):
        scores = []
        for one in sets.astype(np.float64):
            weights = np.exp(alpha * query @ one.T)
            there, back = np.log(weights.sum(axis=1)).mean(), np.log(weights.sum(axis=0)).mean()
            scores.append((there + back) / (2 * alpha))
        best = np.argsort(-np.array(scores), kind="stable")[:k]
        found.append([(int(at), scores[at]) for at in best])
    return found
