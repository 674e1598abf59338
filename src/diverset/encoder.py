"""One side of a model: features and sets over a network that is trained too, and how fast it runs.

What a frozen network gives is computed beforehand; reading pictures and texts is not known here.
"""

from __future__ import annotations

from copy import deepcopy

import torch
from torch import Tensor, nn

from diverset.backbones import Backbone
from diverset.errors import check_choice
from diverset.types import EmbeddingSets, Maps, Padded

Inputs = Padded | Maps | Tensor
PRECISIONS = ("float32", "bfloat16")
"""In which networks are run when encoding; sets come out in float32 or better from both."""


class Encoder(nn.Module):
    """A feature extractor and the set module on top of it, over a network that is trained too.

    A frozen network, or the frozen part below trained blocks, is not part of an encoder: what it
    gives is cached or computed beforehand.
    """

    def __init__(
        self, features: nn.Module, sets: nn.Module, backbone: Backbone | None = None
    ) -> None:
        super().__init__()
        self.backbone = backbone
        self.features = features
        self.sets = sets

    def forward(self, inputs: Inputs, with_attention: bool = False) -> EmbeddingSets:
        if self.backbone is not None:
            inputs = self.backbone(inputs)
        found: EmbeddingSets = self.sets(self.features(inputs), with_attention)
        return found

    def for_inference(self) -> Encoder:
        """A frozen copy in the form that runs fastest; its numbers agree up to rounding."""
        copy = deepcopy(self).eval().requires_grad_(False)
        if copy.backbone is not None:
            copy.backbone = copy.backbone.for_inference()
        return copy


def autocast(device: torch.device, precision: str) -> torch.autocast:
    """Matrix products and convolutions in this precision; "float32" leaves them as they are."""
    check_choice("precision", precision, PRECISIONS)
    return torch.autocast(device.type, torch.bfloat16, enabled=precision == "bfloat16")
