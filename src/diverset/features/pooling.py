"""Pooling of local features to a global one: maximum, average, and the GPO of VSE-infinity.

Every pool takes (local, mask) and ignores padding.
"""

from __future__ import annotations

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn

from diverset.errors import check_choice
from diverset.features.gru import read_padded
from diverset.features.positions import sine_positions

Local = Float[Tensor, "batch inputs dim"]
Mask = Bool[Tensor, "batch inputs"]
Pooled = Float[Tensor, "batch dim"]

CODE_WIDTH, HIDDEN, TEMPERATURE = 32, 32, 0.1


class MaxPool(nn.Module):
    """The maximum of each channel."""

    def forward(self, local: Local, mask: Mask) -> Pooled:
        return local.masked_fill(~mask[..., None], -torch.inf).amax(dim=1)


class AveragePool(nn.Module):
    """The mean of each channel."""

    def forward(self, local: Local, mask: Mask) -> Pooled:
        weights = mask[..., None].to(local.dtype)
        return (local * weights).sum(dim=1) / weights.sum(dim=1)


class GeneralizedPool(nn.Module):
    """GPO (VSE-infinity): each channel sorted, then a weighted sum with learned weights.

    The weights depend only on the rank and on the number of inputs: a small bi-GRU over the sine
    codes of the ranks, then a softmax.
    """

    def __init__(self) -> None:
        super().__init__()
        self.gru = nn.GRU(CODE_WIDTH, HIDDEN, batch_first=True, bidirectional=True)
        self.score = nn.Linear(HIDDEN, 1, bias=False)

    def forward(self, local: Local, mask: Mask) -> Pooled:
        weights = self._weights(mask)
        ranked = local.masked_fill(~mask[..., None], -torch.inf).sort(dim=1, descending=True).values
        ranked = ranked.masked_fill(ranked == -torch.inf, 0.0)  # padding sorts to the end
        return (ranked * weights[..., None].to(local.dtype)).sum(dim=1)

    def _weights(self, mask: Mask) -> Float[Tensor, "batch inputs"]:
        # One row per distinct number of inputs, not per sample.
        counts, rows = torch.unique(mask.sum(dim=1), return_inverse=True)
        ranks = torch.arange(mask.shape[1], device=mask.device) < counts[:, None]
        codes = sine_positions(ranks, CODE_WIDTH)
        states, _ = read_padded(self.gru, codes, ranks)
        scores = self.score(states.view(*ranks.shape, 2, HIDDEN).mean(dim=2))[..., 0]
        scores = (scores / TEMPERATURE).masked_fill(~ranks, -torch.inf)
        weights: Tensor = scores.softmax(dim=1)[rows]
        return weights


POOLS: dict[str, type[nn.Module]] = {"max": MaxPool, "average": AveragePool, "gpo": GeneralizedPool}


def make_pool(name: str) -> nn.Module:
    """A pool by its name in `POOLS`."""
    check_choice("pooling", name, POOLS)
    return POOLS[name]()
