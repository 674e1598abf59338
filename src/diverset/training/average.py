"""A running average of the weights: often a better model than any single step's."""

from __future__ import annotations

import torch
from torch import Tensor, nn


class Average:
    """Exponential average of everything trained and of batch-norm statistics.

    Early in training the decay is lower, so that the start is forgotten: min(decay, t/(t+10)).
    """

    def __init__(self, module: nn.Module, decay: float) -> None:
        self.decay = decay
        self.weights = {name: one.detach().clone() for name, one in _floats(module).items()}
        self.weights["updates"] = torch.zeros(())

    @torch.no_grad()
    def update(self, module: nn.Module) -> None:
        self.weights["updates"] += 1
        updates = float(self.weights["updates"])
        decay = min(self.decay, updates / (updates + 10))
        for name, one in _floats(module).items():
            self.weights[name].lerp_(one, 1 - decay)

    @torch.no_grad()
    def swap(self, module: nn.Module) -> None:
        """Put the average into the module and keep the module's own weights; twice undoes it."""
        for name, one in _floats(module).items():
            own = one.clone()
            one.copy_(self.weights[name])
            self.weights[name] = own


def _floats(module: nn.Module) -> dict[str, Tensor]:
    return {name: one for name, one in module.state_dict().items() if one.is_floating_point()}
