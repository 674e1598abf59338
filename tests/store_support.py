"""Sets and scores for tests of stores."""

import numpy as np
import torch

from diverset.index.set_store import IndexSettings
from diverset.similarity import smooth_chamfer

SETTINGS = IndexSettings(model="feedc0de", elements=3, dim=8)


def unit(values: np.ndarray) -> np.ndarray:
    return (values / np.linalg.norm(values, axis=-1, keepdims=True)).astype(np.float32)


def some_sets(count: int, elements: int = 3, dim: int = 8, seed: int = 0) -> np.ndarray:
    return unit(np.random.default_rng(seed).normal(size=(count, elements, dim)))


def clustered_sets(
    count: int, elements: int, dim: int, clusters: int = 100, seed: int = 0
) -> np.ndarray:
    """Elements near the elements of one of few sets, as those of real images are."""
    rng = np.random.default_rng(seed)
    centres = np.random.default_rng(99).normal(size=(clusters, elements, dim))
    noise = rng.normal(size=(count, elements, dim))
    return unit(centres[rng.integers(clusters, size=count)] + 0.7 * noise)


def exact_scores(queries: np.ndarray, sets: np.ndarray, alpha: float = 16.0) -> np.ndarray:
    return smooth_chamfer(torch.from_numpy(queries), torch.from_numpy(sets), alpha).numpy()
