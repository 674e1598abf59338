"""Visual features of Sec. 3.1 from the last map of a CNN: 1x1 convolution, average pool.

Position codes are 2-D sines, which a set module adds to its keys (footnote of Sec. 3.2).
"""

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional as F

from diverset.errors import ShapeError
from diverset.features.pooling import make_pool
from diverset.features.positions import sine_positions_2d
from diverset.types import Features, Maps, Padded


class ConvolutionalFeatures(nn.Module):
    """local = 1x1 convolution of the map, one row per cell; global = their average or another pool.

    Args:
        dim: width D of the features.
        input_width: channels of the map.
        dropout: on the local features.
        pooling: a name in `POOLS`.
        grid: average the map to this many rows and columns first; None keeps all cells.
        position_scale: factor on the difference of a position code from the mean over all cells.
    """

    def __init__(
        self,
        dim: int,
        input_width: int = 2048,
        dropout: float = 0.0,
        pooling: str = "average",
        grid: int | None = None,
        position_scale: float = 1.0,
    ) -> None:
        super().__init__()
        self.input_width, self.width, self.grid = input_width, dim, grid
        self.position_scale = position_scale
        self.fc = nn.Linear(input_width, dim)  # a 1x1 convolution, with the cells in rows
        self.dropout = nn.Dropout(dropout)
        self.pool = make_pool(pooling)

    def forward(self, inputs: Maps | Float[Tensor, "batch channels height width"]) -> Features:
        """Cells outside the mask (dropped in training) are ignored."""
        maps = grid_of(inputs, self.input_width, self.grid)
        height, width = maps.values.shape[2:]
        cells = cells_of(maps)
        local, mask = self.dropout(self.fc(cells.values)), cells.mask
        codes = sine_positions_2d(height, width, self.width, device=local.device).to(local.dtype)
        if self.position_scale != 1:
            codes = torch.lerp(codes.mean(dim=0), codes, self.position_scale)
        return Features(local, mask, self.pool(local, mask), codes.expand_as(local))


def grid_of(
    inputs: Maps | Float[Tensor, "batch channels height width"],
    channels: int,
    grid: int | None = None,
) -> Maps:
    """Maps of the expected width, averaged to `grid` rows and columns if it is given.

    A mask is that of the averaged cells.
    """
    maps = inputs if isinstance(inputs, Maps) else Maps(inputs)
    if maps.values.ndim != 4 or maps.values.shape[1] != channels:
        raise ShapeError(
            f"maps have shape {tuple(maps.values.shape)}; this model expects "
            f"(batch, {channels}, height, width)"
        )
    if grid is None:
        return maps
    return Maps(F.adaptive_avg_pool2d(maps.values, grid), maps.mask)


def cells_of(maps: Maps) -> Padded:
    """The cells of a map as rows, in the order of reading."""
    cells, mask = maps.values.flatten(2).transpose(1, 2), maps.mask
    if mask is None:
        mask = cells.new_ones(cells.shape[:2], dtype=torch.bool)
    return Padded(cells, mask)
