"""The MLP of an aggregation block (Eq. 4): layer norm, one hidden layer with GELU, dropout."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable
from torch.nn import functional as F

from diverset.runtime.autocast import autocast_dtype
from diverset.runtime.torch_private import gelu_gradient


class FeedForward(nn.Sequential):
    """The MLP without its residual connection.

    Its hidden layer is the largest activation of a training step. Autograd would keep it three
    times: before GELU, after GELU and dropout, and as the noise of dropout. Here the first is kept
    with one byte per number for dropout, and the second is computed again.
    """

    def __init__(self, dim: int, factor: float, dropout: float) -> None:
        hidden = round(factor * dim)
        super().__init__(
            nn.LayerNorm(dim),
            nn.Linear(dim, hidden),
            nn.GELU(),
            nn.Dropout(dropout),
            nn.Linear(hidden, dim),
        )

    def forward(self, rows: Tensor) -> Tensor:
        norm, first, _, dropout, second = self
        if not self.training or not torch.is_grad_enabled() or torch.compiler.is_compiling():
            y: Tensor = super().forward(rows)  # type: ignore[no-untyped-call]
            return y
        apply: Callable[..., Tensor] = _GeluDropoutLinear.apply
        return apply(first(norm(rows)), second.weight, second.bias, dropout.p)


class _GeluDropoutLinear(torch.autograd.Function):
    """F.linear(F.dropout(F.gelu(x), p), weight, bias), which keeps x and the mask of dropout."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, bias: Tensor, p: float) -> Tensor:
        dtype = autocast_dtype(x)
        dropped = torch.empty_like(x, dtype=torch.bool).bernoulli_(p) if p else None
        ctx.save_for_backward(x, weight, dropped)
        ctx.scale, ctx.dtype, ctx.bias_dtype = 1 / (1 - p) if p < 1 else 0.0, dtype, bias.dtype
        hidden = _dropped(F.gelu(x), dropped, ctx.scale)
        return F.linear(hidden.to(dtype), weight.to(dtype), bias.to(dtype))

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, Tensor, Tensor, None]:
        x, weight, dropped = ctx.saved_tensors
        rows = gradient.flatten(0, -2)
        hidden = _dropped(F.gelu(x), dropped, ctx.scale).flatten(0, -2).to(ctx.dtype)
        of_weight = (rows.T @ hidden).to(weight.dtype)
        del hidden
        of_hidden = _dropped((gradient @ weight.to(ctx.dtype)).to(x.dtype), dropped, ctx.scale)
        of_x = gelu_gradient(of_hidden, x)
        return of_x, of_weight, rows.sum(dim=0, dtype=ctx.bias_dtype), None


def _dropped(hidden: Tensor, dropped: Tensor | None, scale: float) -> Tensor:
    """Dropout with a given mask, in place."""
    return hidden if dropped is None else hidden.masked_fill_(dropped, 0).mul_(scale)
