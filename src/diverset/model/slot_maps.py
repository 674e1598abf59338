"""Slot attention over an image: where each slot attended to."""

from __future__ import annotations

import torch
from jaxtyping import Float
from torch import Tensor

from diverset.errors import OptionError
from diverset.model.encoder import Encoder, Inputs, evaluation_mode


@torch.no_grad()
def slot_maps(encoder: Encoder, inputs: Inputs) -> Float[Tensor, "images slots rows columns"]:
    """The attention of each slot in the last iteration: its share of every cell, mean over heads.

    Args:
        encoder: the image encoder of a model that reads feature maps.
        inputs: what it reads; see `Model.image_inputs`.
    """
    device = next(encoder.parameters()).device
    with evaluation_mode(encoder):
        attention = encoder(inputs.to(device), with_attention=True).attention
    if not attention:
        raise OptionError(
            f"{type(encoder.sets).__name__} has no attention to draw; use a model with slots"
        )
    last: Tensor = attention[-1].mean(dim=1).cpu()
    side = int(last.shape[-1] ** 0.5)
    return last.view(*last.shape[:2], side, side)
