"""Encoding a split: the embedding sets of all its images and captions."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from torch import Tensor

from diverset.model import Model
from diverset.model.encoder import Encoder, join_sets
from diverset.recipe.sources import InputSource
from diverset.recipe.splits import SplitData
from diverset.runtime.progress import TaskCallback

IMAGE_BATCH, TEXT_BATCH = 128, 512


def encode_split(
    model: Model,
    split: SplitData,
    progress: TaskCallback | None = None,
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

    images = _encode(model.image_encoder, split.images, IMAGE_BATCH, precision, report)
    texts = _encode(model.text_encoder, split.texts, TEXT_BATCH, precision, report)
    return images, texts


def _encode(
    encoder: Encoder,
    source: InputSource,
    batch_size: int,
    precision: str,
    report: Callable[[int], None],
) -> Tensor:
    sets = []
    for start in range(0, len(source), batch_size):
        rows = np.arange(start, min(start + batch_size, len(source)))
        sets.append(encoder.encode([source.batch(rows)], precision).float().cpu())
        report(len(rows))
    return join_sets(sets)
