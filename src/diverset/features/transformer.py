"""Hidden states of a transformer (BERT and its kin): projection, max-pool (Sec. 3.1).

Takes token states; it does not know the transformer.
"""

from torch import nn

from diverset.errors import ShapeError
from diverset.features.pooling import make_pool
from diverset.features.positions import sine_positions
from diverset.types import Features, Padded


class TransformerFeatures(nn.Module):
    """local = Linear(token states); global = max over tokens.

    Args:
        dim: width D of the features.
        input_width: width of the transformer's hidden states.
        dropout: on the local features.
        pooling: a name in `POOLS`.
        positions: whether tokens carry 1-D sine positions.
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
        self.input_width = input_width
        self.width = dim
        self.positions = positions
        self.fc = nn.Linear(input_width, dim)
        self.dropout = nn.Dropout(dropout)
        self.pool = make_pool(pooling)

    def forward(self, states: Padded) -> Features:
        values, mask = states.values, states.mask
        if values.ndim != 3 or values.shape[-1] != self.input_width:
            raise ShapeError(
                f"token states have shape {tuple(values.shape)}; this model was made for "
                f"(batch, tokens, {self.input_width})"
            )
        # Whatever stands in the padding, NaN included, must not reach a sum.
        local = self.dropout(self.fc(values.masked_fill(~mask[..., None], 0)))
        codes = sine_positions(mask, self.width).to(local.dtype) if self.positions else None
        return Features(local, mask, self.pool(local, mask), codes)
