"""Encoding a split: the embedding sets of all its images and captions."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional as F

from diverset.model import Model
from diverset.model.encoder import Encoder, evaluation_mode, join_sets
from diverset.recipe.sources import InputSource
from diverset.recipe.splits import SplitData
from diverset.runtime.autocast import autocast

BATCH = 128


def encode_split(
    model: Model,
    split: SplitData,
    batch_size: int = BATCH,
    progress: Callable[[int, int], None] | None = None,
    precision: str = "float32",
) -> tuple[Tensor, Tensor]:
    """Image sets and text sets of a split, on the CPU, in evaluation mode."""
    total = len(split.images) + len(split.texts)
    done = 0

    def report(count: int) -> None:
        nonlocal done
        done += count
        if progress is not None:
            progress(done, total)

    with evaluation_mode(model), autocast(model.device, precision):
        images = _encode(model.image_encoder, split.images, model.device, batch_size, report)
        texts = _encode(model.text_encoder, split.texts, model.device, 4 * batch_size, report)
    return images, texts


@torch.no_grad()
def _encode(
    encoder: Encoder,
    source: InputSource,
    device: torch.device,
    batch_size: int,
    report: Callable[[int], None],
) -> Tensor:
    sets = []
    for start in range(0, len(source), batch_size):
        rows = np.arange(start, min(start + batch_size, len(source)))
        elements = encoder(source.batch(rows).to(device)).elements
        if elements.dtype in (torch.bfloat16, torch.float16):
            elements = F.normalize(elements.float(), dim=-1)
        sets.append(elements.float().cpu())
        report(len(rows))
    return join_sets(sets)
