"""Embeddings that the backbone has computed already, such as those of a CLIP."""

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from diverset.types import EmbeddingSets, Maps, Padded


class PrecomputedSets(nn.Module):
    """Every input is an element, l2-normalised: cells of a map (images) or states (texts)."""

    def __init__(self) -> None:
        super().__init__()
        # Nothing is learned, but a model finds its device and precision by its parameters.
        self.empty = nn.Parameter(torch.empty(0), requires_grad=False)

    def forward(
        self, inputs: Padded | Maps | Tensor, with_attention: bool = False
    ) -> EmbeddingSets:
        values = inputs if isinstance(inputs, Tensor) else inputs.values
        elements = values.flatten(2).transpose(1, 2) if values.ndim == 4 else values
        return EmbeddingSets(F.normalize(elements, dim=-1), elements)
