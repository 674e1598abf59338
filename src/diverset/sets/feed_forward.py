"""The MLP of an aggregation block (Eq. 4): layer norm, one hidden layer with GELU, dropout."""

from torch import nn


def feed_forward(dim: int, factor: float, dropout: float) -> nn.Sequential:
    """The MLP without its residual connection."""
    hidden = round(factor * dim)
    return nn.Sequential(
        nn.LayerNorm(dim),
        nn.Linear(dim, hidden),
        nn.GELU(),
        nn.Dropout(dropout),
        nn.Linear(hidden, dim),
    )
