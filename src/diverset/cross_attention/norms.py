"""Batch norms of SGRAF: one channel per region, and one channel caption by caption."""

from __future__ import annotations

import torch
from jaxtyping import Float
from torch import Tensor, nn

from diverset.cross_attention.blocks import Local, Mask
from diverset.errors import ShapeError

MOMENTUM, EPSILON = 0.1, 1e-5


class _Norm(nn.Module):
    running_mean: Tensor
    running_var: Tensor

    def __init__(self, channels: int = 1) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(channels))
        self.bias = nn.Parameter(torch.zeros(channels))
        self.register_buffer("running_mean", torch.zeros(channels))
        self.register_buffer("running_var", torch.ones(channels))


class RegionNorm(_Norm):
    """A batch norm with one channel per region by its number, over the images that have it."""

    def forward(self, local: Local, mask: Mask) -> Local:
        regions = local.shape[1]
        if regions > len(self.weight):
            raise ShapeError(
                f"an image has {regions} regions or cells, but similarity.max_regions is "
                f"{len(self.weight)}; raise it"
            )
        mean, var = self.running_mean[:regions], self.running_var[:regions]
        if self.training:
            count = (mask.sum(dim=0) * local.shape[2]).clamp_min(1)
            real = mask[..., None]
            mean = (local * real).sum(dim=(0, 2)) / count
            var = ((local - mean[:, None]).square() * real).sum(dim=(0, 2)) / count
            self._update(mean.detach(), var.detach(), count, mask.any(dim=0))
        scaled = (local - mean[:, None]) / (var[:, None] + EPSILON).sqrt()
        return scaled * self.weight[:regions, None] + self.bias[:regions, None]

    def _update(self, mean: Tensor, var: Tensor, count: Tensor, seen: Tensor) -> None:
        unbiased = var * count / (count - 1).clamp_min(1)
        for running, value in ((self.running_mean, mean), (self.running_var, unbiased)):
            old = running[: len(value)]
            old.copy_(torch.where(seen, old.lerp(value.to(old.dtype), MOMENTUM), old))


class CaptionNorm(_Norm):
    """A batch norm of one channel with the statistics of one caption against all images.

    The published model runs it caption by caption; pooling all captions would be another model.
    Running statistics are updated once per caption, in order, by `update`.
    """

    def forward(
        self, logits: Float[Tensor, "images texts nodes"], mask: Mask
    ) -> tuple[Tensor, Tensor, Tensor]:
        """The normalised logits, and mean and unbiased variance of every caption."""
        count = mask.sum(dim=1) * len(logits)
        mean = (logits * mask).sum(dim=(0, 2)) / count
        var = ((logits - mean[:, None]).square() * mask).sum(dim=(0, 2)) / count
        used = (mean, var) if self.training else (self.running_mean, self.running_var)
        scaled = (logits - used[0][:, None]) / (used[1][:, None] + EPSILON).sqrt()
        return scaled * self.weight + self.bias, mean, var * count / (count - 1).clamp_min(1)

    @torch.no_grad()
    def update(self, means: Float[Tensor, " texts"], variances: Float[Tensor, " texts"]) -> None:
        """Move the running statistics once per caption, in order."""
        later = torch.arange(len(means) - 1, -1, -1, device=means.device)
        weights = MOMENTUM * (1 - MOMENTUM) ** later.to(means.dtype)
        for running, values in ((self.running_mean, means), (self.running_var, variances)):
            running.mul_((1 - MOMENTUM) ** len(values)).add_((weights * values).sum())
