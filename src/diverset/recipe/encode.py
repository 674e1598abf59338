"""Encoding a split: the embedding sets of all its images and captions."""

from __future__ import annotations

from torch import Tensor

from diverset.model import Model
from diverset.model.encoder import join_sets
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
    total, done, encoded = len(split.images) + len(split.texts), 0, []
    for encoder, loader, batch_size in (
        (model.image_encoder, split.images, IMAGE_BATCH),
        (model.text_encoder, split.texts, TEXT_BATCH),
    ):
        sets = []
        for start in range(0, len(loader), batch_size):
            rows = range(start, min(start + batch_size, len(loader)))
            sets.append(encoder.encode([loader.batch(rows)], precision).float().cpu())
            done += len(rows)
            if progress is not None:
                progress(done, total)
        encoded.append(join_sets(sets))
    return encoded[0], encoded[1]
