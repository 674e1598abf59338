"""Numbers of the published systems on tiny inputs (DIVERSET_BASELINE_FIXTURES names the folder)."""

import os
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

DEFAULT = Path(__file__).parent / "fixtures" / "baselines"
FOLDER = Path(os.environ.get("DIVERSET_BASELINE_FIXTURES", DEFAULT))
TOLERANCES = {torch.float64: 1e-10, torch.float32: 1e-5}
GRADIENT_TOLERANCE = 1e-6


class Fixture:
    """The arrays of one system, as tensors of one floating point type."""

    def __init__(self, system: str, dtype: torch.dtype = torch.float64) -> None:
        self.arrays = np.load(FOLDER / f"fx_{system}.npz", allow_pickle=False)
        self.dtype = dtype

    def __getitem__(self, key: str) -> Tensor:
        tensor = torch.from_numpy(np.array(self.arrays[key]))
        return tensor.to(self.dtype) if tensor.is_floating_point() else tensor

    def mask(self, lengths: str, inputs: int) -> Tensor:
        return torch.arange(inputs) < self[lengths][:, None]

    def word_mask(self) -> Tensor:
        return self.mask("in/lengths", self.arrays["in/ids"].shape[1])

    def region_mask(self, varying: bool = False) -> Tensor:
        if varying:
            return self.mask("in/region_counts", self.arrays["in/regions"].shape[1])
        return torch.ones(self.arrays["in/regions"].shape[:2], dtype=torch.bool)


def hardest_triplet(scores: Tensor, margin: float = 0.2) -> Tensor:
    """The published loss: hardest negatives of matched pairs, summed; captions beyond the images
    are left out."""
    count = min(scores.shape)
    scores = scores[:count, :count]
    matches = scores.diag()
    own = torch.eye(count, dtype=torch.bool)
    rows = (margin + scores - matches[:, None]).clamp_min(0).masked_fill(own, 0)
    columns = (margin + scores - matches[None]).clamp_min(0).masked_fill(own, 0)
    return rows.amax(dim=1).sum() + columns.amax(dim=0).sum()


def gradients(loss: Tensor, *inputs: Tensor) -> tuple[Tensor, ...]:
    return torch.autograd.grad(loss, inputs)
