"""Convolutional maps: 1x1 projection, average pool, 2-D sine positions for the keys (Sec. 4.2).

Takes the last map of a CNN; it does not know the CNN.
"""

from jaxtyping import Bool, Float
from torch import Tensor, nn

from diverset.errors import ShapeError
from diverset.features.positions import sine_positions_2d
from diverset.types import Features


class ConvolutionalFeatures(nn.Module):
    """local = 1x1 convolution of the map, one row a cell; global = their average.

    Args:
        dim: width D of the features.
        input_width: channels of the map.
        dropout: on the local features.
    """

    def __init__(self, dim: int, input_width: int = 2048, dropout: float = 0.0) -> None:
        super().__init__()
        self.input_width = input_width
        self.width = dim
        self.fc = nn.Linear(input_width, dim)  # a 1x1 convolution, with the cells in rows
        self.dropout = nn.Dropout(dropout)

    def forward(
        self,
        maps: Float[Tensor, "batch channels height width"],
        mask: Bool[Tensor, "batch cells"] | None = None,
    ) -> Features:
        """Cells where `mask` is False (dropped in training) take no part."""
        if maps.ndim != 4 or maps.shape[1] != self.input_width:
            raise ShapeError(
                f"maps have shape {tuple(maps.shape)}; this model was made for "
                f"(batch, {self.input_width}, height, width)"
            )
        height, width = maps.shape[2:]
        local = self.dropout(self.fc(maps.flatten(2).transpose(1, 2)))
        if mask is None:
            mask = local.new_ones(local.shape[:2], dtype=bool)
        kept = mask[..., None].to(local.dtype)
        pooled = (local * kept).sum(dim=1) / kept.sum(dim=1)
        codes = sine_positions_2d(height, width, self.width, local.dtype, local.device)
        return Features(local, mask, pooled, codes.expand_as(local))
