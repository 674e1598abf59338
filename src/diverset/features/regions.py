"""Region features of an object detector: projection + residual MLP, max-pool (Sec. 4.2).

Everything is computed once and for real regions only, so that batch-norm statistics, and with
them every sample's features, do not depend on padding.
"""

from torch import nn

from diverset.errors import ShapeError, check_choice
from diverset.features.pooling import make_pool
from diverset.types import Features, Padded


class RegionFeatures(nn.Module):
    """local = Dropout(MLP(h) + h) with h = fc(x); global = max over regions.

    Args:
        dim: width D of the features.
        input_width: width of the detector's features.
        dropout: on the local features.
        pooling: a name in `POOLS`.
        mlp_reads: "projection" (the paper's code: MLP(h)) or "input" (VSE-infinity: MLP(x)).
    """

    def __init__(
        self,
        dim: int,
        input_width: int = 2048,
        dropout: float = 0.1,
        mlp_reads: str = "projection",
        pooling: str = "max",
    ) -> None:
        super().__init__()
        check_choice("mlp_reads", mlp_reads, ["projection", "input"])
        self.input_width = input_width
        self.width = dim
        self.mlp_reads = mlp_reads
        self.fc = nn.Linear(input_width, dim)
        self.mlp = nn.Sequential(
            nn.Linear(dim if mlp_reads == "projection" else input_width, dim // 2),
            nn.BatchNorm1d(dim // 2),
            nn.ReLU(),
            nn.Linear(dim // 2, dim),
        )
        self.dropout = nn.Dropout(dropout)
        self.pool = make_pool(pooling)

    def forward(self, regions: Padded) -> Features:
        values, mask = regions.values, regions.mask
        if values.ndim != 3 or values.shape[-1] != self.input_width:
            raise ShapeError(
                f"regions have shape {tuple(values.shape)}; this model was made for "
                f"(batch, regions, {self.input_width})"
            )
        rows = values[mask]
        projected = self.fc(rows)
        rows = self.mlp(projected if self.mlp_reads == "projection" else rows) + projected
        rows = self.dropout(rows)
        places = mask.nonzero(as_tuple=True)
        local = rows.new_zeros(*mask.shape, self.width).index_put(places, rows)
        return Features(local, mask, self.pool(local, mask))
