"""All local features: the "set" of a cross-attention model such as SCAN."""

import torch
from torch import nn

from diverset.errors import OptionError
from diverset.types import EmbeddingSets, Features

EPSILON = 1e-8
"""Added to norms, as in the published systems."""


class LocalSets(nn.Module):
    """Every local feature, l2-normalised; padding is zero rows, so sizes depend on the batch."""

    def __init__(self, dim: int, input_width: int) -> None:
        super().__init__()
        if input_width != dim:
            raise OptionError(
                f"local features are {input_width} wide, dim is {dim}; a local set needs equal "
                'widths (for a bi-GRU set text.local to "states")'
            )

    def forward(self, features: Features, with_attention: bool = False) -> EmbeddingSets:
        norms = torch.linalg.vector_norm(features.local, dim=-1, keepdim=True)
        elements = features.local / (norms + EPSILON) * features.mask[..., None]
        return EmbeddingSets(elements, elements)
