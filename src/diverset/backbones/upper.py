"""The upper blocks of a network alone, over states that its frozen lower part gave.

`Backbone.split` cuts a network in two. The lower part is a backbone like any other, so that its
states go through the feature cache; the upper part is what is trained, stored and run in every
step. Together they are the network.
"""

from __future__ import annotations

from collections.abc import Iterable

import torch
from jaxtyping import Float
from torch import Tensor, nn

from diverset.backbones.base import Backbone
from diverset.types import Maps, Padded

ROWS = 64  # texts of like length at once


class UpperBlocks(Backbone):
    """What upper blocks of pictures and of texts have in common.

    Args:
        name: of the network they were cut from.
        width: of what they give.
        blocks: from the cut to the output.
    """

    def __init__(self, name: str, width: int, blocks: Iterable[nn.Module]) -> None:
        super().__init__()
        self.name, self.width = name, width
        self.blocks = nn.ModuleList(blocks)

    def stages(self) -> list[nn.Module]:
        return list(self.blocks)

    def settings(self) -> str:
        return f"upper {len(self.blocks)}"


class UpperMaps(UpperBlocks):
    """Feature maps at the cut to the last feature map; a mask counts cells of the last one."""

    def forward(
        self, inputs: Maps | Float[Tensor, "batch channels rows columns"]
    ) -> Maps | Float[Tensor, "batch width lower_rows lower_columns"]:
        values = inputs.values if isinstance(inputs, Maps) else inputs
        for block in self.blocks:
            values = block(values)
        return Maps(values, inputs.mask) if isinstance(inputs, Maps) else values


class UpperStates(UpperBlocks):
    """Token states at the cut to the last ones.

    Tokens that the mask hides are neither attended to nor computed: they come out as zeros. Texts
    of like length are run together, since in a batch of captions most places are padding.
    """

    def forward(self, states: Padded) -> Padded:
        if torch.compiler.is_compiling():  # a trace has no lengths to look at
            return Padded(self._run(states.values, states.mask), states.mask)
        counts = states.mask.sum(dim=1)
        # Visible tokens first, in their order; the cut lies above the position embeddings.
        places = states.mask.to(torch.uint8).argsort(dim=1, descending=True, stable=True)
        parts, rows_of, places_of = [], [], []
        for rows in torch.split(counts.argsort(), ROWS):
            taken = places[rows, : int(counts[rows].max())]
            visible = torch.arange(taken.shape[1], device=taken.device) < counts[rows, None]
            parts.append(self._run(states.values[rows[:, None], taken], visible)[visible])
            rows_of.append(rows[:, None].expand_as(taken)[visible])
            places_of.append(taken[visible])
        values = torch.cat(parts)
        found = values.new_zeros(states.values.shape)
        where = (torch.cat(rows_of), torch.cat(places_of))
        return Padded(found.index_put(where, values), states.mask)

    def _run(self, values: Tensor, visible: Tensor) -> Tensor:
        hidden = torch.zeros(visible.shape, dtype=values.dtype, device=values.device)
        hidden = hidden.masked_fill(~visible, torch.finfo(values.dtype).min)[:, None, None]
        for block in self.blocks:
            found = block(values, hidden)
            values = found[0] if isinstance(found, tuple) else found
        return values
