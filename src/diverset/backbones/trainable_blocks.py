"""The trainable blocks of a backbone that was split, applied to cached features.

`Backbone.split` returns a frozen backbone, whose output goes through the feature cache, and these
blocks, which are trained, stored with the model and run in every step.
"""

from __future__ import annotations

from collections.abc import Iterable

import torch
from jaxtyping import Float
from torch import Tensor, nn

from diverset.backbones.base import Backbone
from diverset.types import Maps, Padded

GROUP_SIZE = 64  # texts of similar length that are run together


class TrainableBlocks(Backbone):
    """The last blocks of the backbone with this name and output width."""

    def __init__(self, name: str, width: int, blocks: Iterable[nn.Module]) -> None:
        super().__init__()
        self.name, self.width = name, width
        self.blocks = nn.ModuleList(blocks)

    def stages(self) -> list[nn.Module]:
        return list(self.blocks)

    def settings(self) -> str:
        return f"last {len(self.blocks)} blocks"


class TrainableImageBlocks(TrainableBlocks):
    """Cached feature maps to the last feature map; a mask refers to cells of the last one."""

    def forward(
        self, inputs: Maps | Float[Tensor, "batch channels rows columns"]
    ) -> Maps | Float[Tensor, "batch width last_rows last_columns"]:
        values = inputs.values if isinstance(inputs, Maps) else inputs
        for block in self.blocks:
            values = block(values)
        return Maps(values, inputs.mask) if isinstance(inputs, Maps) else values


class TrainableTextBlocks(TrainableBlocks):
    """Cached token states to the last token states.

    Masked tokens are neither attended to nor computed; their states are zeros. Texts of similar
    length are run together, because most positions in a batch of captions are padding.
    """

    def forward(self, states: Padded) -> Padded:
        if torch.compiler.is_compiling():  # lengths are unknown while tracing
            return Padded(self._run(states.values, states.mask), states.mask)
        lengths = states.mask.sum(dim=1)
        # Real tokens first, in their order; position embeddings are already part of the states.
        order = states.mask.to(torch.uint8).argsort(dim=1, descending=True, stable=True)
        values, rows, positions = [], [], []
        for group in torch.split(lengths.argsort(), GROUP_SIZE):
            taken = order[group, : int(lengths[group].max())]
            real = torch.arange(taken.shape[1], device=taken.device) < lengths[group, None]
            values.append(self._run(states.values[group[:, None], taken], real)[real])
            rows.append(group[:, None].expand_as(taken)[real])
            positions.append(taken[real])
        flat = torch.cat(values)
        result = flat.new_zeros(states.values.shape)
        result = result.index_put((torch.cat(rows), torch.cat(positions)), flat)
        return Padded(result, states.mask)

    def _run(self, values: Tensor, real: Tensor) -> Tensor:
        bias = torch.zeros(real.shape, dtype=values.dtype, device=values.device)
        bias = bias.masked_fill(~real, torch.finfo(values.dtype).min)[:, None, None]
        for block in self.blocks:
            output = block(values, bias)
            values = output[0] if isinstance(output, tuple) else output
        return values
