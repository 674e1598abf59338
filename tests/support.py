"""Shared by several test files: recorded numbers and small random sets."""

from pathlib import Path

import numpy as np
import torch

from diverset.similarity import MatchProbability

FIXTURES = Path(__file__).parent / "fixtures"

# The evaluation fixture: 100 images with five captions each, under names of the released code.
KINDS = {
    "smooth_chamfer": "smooth_chamfer",
    "chamfer": "chamfer",
    "max": "mil",
    "mp": MatchProbability(1, 0),
}
FIVE_EACH = np.repeat(np.arange(100), 5)


def load_fixture(name: str) -> dict[str, torch.Tensor]:
    with np.load(FIXTURES / f"{name}.npz") as arrays:
        numbers = {key: arrays[key] for key in arrays.files}
    return {
        key: torch.from_numpy(array) for key, array in numbers.items() if array.dtype.kind in "fib"
    }


def random_sets(count: int, size: int, dim: int, dtype: torch.dtype = torch.float32, seed: int = 0):
    generator = torch.Generator().manual_seed(seed)
    sets = torch.randn(count, size, dim, generator=generator, dtype=torch.float64)
    return torch.nn.functional.normalize(sets, dim=-1).to(dtype)
