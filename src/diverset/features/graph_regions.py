"""VSRN's image features: regions reason with each other in a graph (Li et al., ICCV 2019).

Four residual graph layers let every region see the others, then a GRU reads the regions in the
detector's order; its last state is the global feature.
"""

from __future__ import annotations

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional as F

from diverset.config import GRAPHS
from diverset.errors import check_choice
from diverset.features.checks import check_inputs
from diverset.features.convolution import cells_of, grid_of
from diverset.features.gru import pack
from diverset.types import Features, Maps, Padded

LAYERS = 4


class GraphLayer(nn.Module):
    """V + BN(W (A g(V))) with the affinity A = theta(V) phi(V)^T / R of all pairs of regions.

    The batch norm starts at 0 gain and 0 shift, so every layer starts as the identity.
    """

    def __init__(self, dim: int) -> None:
        super().__init__()
        self.theta, self.phi, self.g = (nn.Linear(dim, dim) for _ in range(3))
        self.output, self.norm = nn.Linear(dim, dim), nn.BatchNorm1d(dim)
        nn.init.zeros_(self.norm.weight)
        nn.init.zeros_(self.norm.bias)

    def forward(self, regions: Tensor, mask: Tensor) -> Float[Tensor, "batch regions dim"]:
        affinity = self.theta(regions) @ self.phi(regions).transpose(1, 2)
        affinity = affinity * mask[:, None] / mask.sum(dim=1)[:, None, None]
        messages = self.output(affinity @ self.g(regions))
        # Statistics over real regions only.
        update = torch.zeros_like(messages).index_put(
            mask.nonzero(as_tuple=True), self.norm(messages[mask])
        )
        return regions + update


class GraphRegionFeatures(nn.Module):
    """local = regions after four graph layers; global = last state of a GRU over them.

    Args:
        dim: width D of the features (published: 2048).
        input_width: width of the detector's features.
        variant: "coco" normalises the projected regions too, "f30k" has a batch norm on the global
            feature instead, as published.
        corrected: normalise each region over its features. The published models normalise each
            feature over the regions, because their helper always reduces axis 1.
        grid: average maps to this many rows and columns first; None keeps all cells.
    """

    def __init__(
        self,
        dim: int,
        input_width: int = 2048,
        variant: str = "coco",
        corrected: bool = False,
        grid: int | None = None,
    ) -> None:
        super().__init__()
        check_choice("variant", variant, GRAPHS)
        self.input_width, self.width, self.corrected = input_width, dim, corrected
        self.grid = grid
        self.normalize_projection = variant == "coco"
        self.fc = nn.Linear(input_width, dim)
        nn.init.xavier_uniform_(self.fc.weight)
        nn.init.zeros_(self.fc.bias)
        self.layers = nn.ModuleList(GraphLayer(dim) for _ in range(LAYERS))
        self.gru = nn.GRU(dim, dim, batch_first=True)
        self.norm = nn.BatchNorm1d(dim) if variant == "f30k" else None

    def forward(self, inputs: Padded | Maps | Tensor) -> Features:
        """Features of regions, or of the cells of a map."""
        if not isinstance(inputs, Padded):
            inputs = cells_of(grid_of(inputs, self.input_width, self.grid))
        regions = inputs.real_first()
        values, mask = regions.values, regions.mask
        check_inputs("regions", values, "regions", self.input_width)
        real, axis = mask[..., None], 2 if self.corrected else 1
        local = self.fc(values) * real
        if self.normalize_projection:
            local = F.normalize(local, dim=axis)
        for layer in self.layers:
            local = layer(local, mask)
        local = F.normalize(local * real, dim=axis)
        pooled = self.gru(pack(local, mask))[1][0]
        return Features(local, mask, pooled if self.norm is None else self.norm(pooled))
