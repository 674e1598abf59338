"""Convolutional maps: 1x1 projection, average pool, 2-D sine positions for the keys (Sec. 4.2).

Takes the last map of a CNN; it does not know the CNN.
"""

from jaxtyping import Float
from torch import Tensor, nn

from diverset.errors import ShapeError
from diverset.features.pooling import make_pool
from diverset.features.positions import sine_positions_2d
from diverset.types import Features, Maps


class ConvolutionalFeatures(nn.Module):
    """local = 1x1 convolution of the map, one row a cell; global = their average.

    Args:
        dim: width D of the features.
        input_width: channels of the map.
        dropout: on the local features.
        pooling: a name in `POOLS`.
    """

    def __init__(
        self,
        dim: int,
        input_width: int = 2048,
        dropout: float = 0.0,
        pooling: str = "average",
    ) -> None:
        super().__init__()
        self.input_width = input_width
        self.width = dim
        self.fc = nn.Linear(input_width, dim)  # a 1x1 convolution, with the cells in rows
        self.dropout = nn.Dropout(dropout)
        self.pool = make_pool(pooling)

    def forward(self, inputs: Maps | Float[Tensor, "batch channels height width"]) -> Features:
        """Cells that the maps' mask leaves out (dropped in training) take no part."""
        maps, mask = (inputs.values, inputs.mask) if isinstance(inputs, Maps) else (inputs, None)
        if maps.ndim != 4 or maps.shape[1] != self.input_width:
            raise ShapeError(
                f"maps have shape {tuple(maps.shape)}; this model was made for "
                f"(batch, {self.input_width}, height, width)"
            )
        height, width = maps.shape[2:]
        local = self.dropout(self.fc(maps.flatten(2).transpose(1, 2)))
        if mask is None:
            mask = local.new_ones(local.shape[:2], dtype=bool)
        codes = sine_positions_2d(height, width, self.width, device=local.device).to(local.dtype)
        return Features(local, mask, self.pool(local, mask), codes.expand_as(local))
