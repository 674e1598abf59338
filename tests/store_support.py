"""What tests of stores share: small and clustered sets, and their scores."""

import numpy as np
import torch

from diverset.index.base import Settings
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
