"""The MLP between attentions (Eq. 4): layer norm, one hidden layer with GELU, dropout."""

from torch import nn


def feed_forward(dim: int, factor: float, dropout: float) -> nn.Sequential:
    """Without the residual sum, which its users add."""
    hidden = round(factor * dim)
    return nn.Sequential(
        nn.LayerNorm(dim),
        nn.Linear(dim, hidden),
        nn.GELU(),
        nn.Dropout(dropout),
        nn.Linear(hidden, dim),
    )
