"""Textual features of Sec. 3.1 from the hidden states of BERT or another transformer."""

from torch import nn

from diverset.features.checks import check_inputs
from diverset.features.pooling import make_pool
from diverset.features.positions import sine_positions
from diverset.types import Features, Padded


class TransformerFeatures(nn.Module):
    """local = Linear(token states); global = max over tokens or another pool.

    `pooling` is a name in `POOLS`; dropout is on the local features. `positions` adds 1-D sine
    position codes to the result.
    """

    def __init__(
        self,
        dim: int,
        input_width: int = 768,
        dropout: float = 0.0,
        positions: bool = True,
        pooling: str = "max",
    ) -> None:
        super().__init__()
        self.input_width, self.width, self.positions = input_width, dim, positions
        self.fc = nn.Linear(input_width, dim)
        self.dropout = nn.Dropout(dropout)
        self.pool = make_pool(pooling)

    def forward(self, states: Padded) -> Features:
        values, mask = states.values, states.mask
        check_inputs("token states", values, "tokens", self.input_width)
        # Padding may hold anything, NaN included, and must not reach a sum.
        local = self.dropout(self.fc(values.masked_fill(~mask[..., None], 0)))
        codes = sine_positions(mask, self.width).to(local.dtype) if self.positions else None
        return Features(local, mask, self.pool(local, mask), codes)
