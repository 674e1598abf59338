"""Visual features of Sec. 3.1 from regions of an object detector: residual MLP, max-pool.

Only real regions are computed, so that batch-norm statistics do not depend on padding.
"""

from torch import nn

from diverset.config import MLP_READS
from diverset.errors import check_choice
from diverset.features.checks import check_inputs
from diverset.features.pooling import make_pool
from diverset.types import Features, Padded


class RegionFeatures(nn.Module):
    """local = Dropout(MLP(h) + h) with h = fc(x); global = max over regions or another pool.

    The MLP reads the "projection" h (the paper's code) or the "input" x (VSE-infinity); if it reads
    "nothing", there is none (SCAN). `pooling` is a name in `POOLS`.
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
        check_choice("mlp_reads", mlp_reads, MLP_READS)
        self.input_width, self.width, self.mlp_reads = input_width, dim, mlp_reads
        self.fc = nn.Linear(input_width, dim)
        if mlp_reads == "nothing":
            self.mlp = None
            nn.init.xavier_uniform_(self.fc.weight)
            nn.init.zeros_(self.fc.bias)
        else:
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
        check_inputs("regions", values, "regions", self.input_width)
        rows = values[mask]
        projected = self.fc(rows)
        if self.mlp is not None:
            projected = self.mlp(projected if self.mlp_reads == "projection" else rows) + projected
        rows = self.dropout(projected)
        indices = mask.nonzero(as_tuple=True)
        local = rows.new_zeros(*mask.shape, self.width).index_put(indices, rows)
        return Features(local, mask, self.pool(local, mask))
