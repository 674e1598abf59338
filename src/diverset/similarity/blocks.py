"""Similarities between whole collections, block by block, in bounded memory."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor

from diverset.errors import OptionError, check_choice
from diverset.similarity.block_scorer import BlockScorer
from diverset.similarity.chamfer import chamfer, chamfer_of_cosines
from diverset.similarity.checks import check_sets
from diverset.similarity.compiled import compiled_smooth_chamfer
from diverset.similarity.cosines import ImageSets, Scores, TextSets
from diverset.similarity.mil import mil, mil_of_cosines
from diverset.similarity.smooth_chamfer import fast_smooth_chamfer, smooth_chamfer

Similarity = Callable[..., Scores]

MAX_MEMORY = 512 * 2**20  # bytes in addition to the inputs
CPU_BLOCK = 96 * 2**20  # bytes; a larger block leaves the processor's cache before it is reduced

SIMILARITIES: dict[str, Similarity] = {
    "smooth_chamfer": smooth_chamfer,
    "chamfer": chamfer,
    "mil": mil,
}
_REDUCTIONS: dict[str, Callable[..., Tensor]] = {
    "smooth_chamfer": fast_smooth_chamfer,
    "chamfer": chamfer_of_cosines,
    "mil": mil_of_cosines,
}


@torch.no_grad()
def similarity_matrix(
    images: ImageSets,
    texts: TextSets,
    similarity: str | Similarity = "smooth_chamfer",
    *,
    max_memory: int = MAX_MEMORY,
    device: torch.device | str | None = None,
    **options: Any,
) -> Scores:
    """Score every image against every text, block by block.

    The arguments are those of `similarity_blocks`; the result is on the device of `images`.
    """
    blocks = similarity_blocks(
        images, texts, similarity, max_memory=max_memory, device=device, **options
    )
    dtype = torch.promote_types(torch.promote_types(images.dtype, texts.dtype), torch.float32)
    scores = torch.empty(len(images), len(texts), dtype=dtype, device=images.device)
    for rows, columns, block in blocks:
        scores[rows, columns] = block
    return scores


def similarity_blocks(
    images: ImageSets,
    texts: TextSets,
    similarity: str | Similarity = "smooth_chamfer",
    *,
    block: tuple[int, int] | None = None,
    order: Int[Tensor, " texts"] | None = None,
    select: Callable[[slice, slice], bool] | None = None,
    max_memory: int = MAX_MEMORY,
    device: torch.device | str | None = None,
    **options: Any,
) -> Iterator[tuple[slice, slice, Float[Tensor, "rows columns"]]]:
    """Yield (rows, columns, scores) of blocks, for collections too large for a matrix.

    The scores of a block are bit-identical in every pass over the same blocks.

    Args:
        images: image sets.
        texts: text sets.
        similarity: a name in `SIMILARITIES`, or any function of two batches of sets, such as a
            trained `MatchProbability`.
        block: number of images and texts per block; by default `block_shape` decides.
        order: indices of the texts to score; columns then count along `order`.
        select: returns whether the block (rows, columns) is scored; by default all are.
        max_memory: memory bound in bytes, in addition to the inputs.
        device: where to compute, and where the scores are.
        options: passed to the similarity, e.g. `alpha=16.0`.
    """
    if isinstance(similarity, str):
        check_sets(images, texts)  # a function checks its own inputs
    device = torch.device(device) if device is not None else images.device
    height, width = block or block_shape(images, texts, max_memory, device)
    prepare, score = _block_scorer(similarity, options)
    count = len(texts) if order is None else len(order)

    @torch.no_grad()
    def generate() -> Iterator[tuple[slice, slice, Tensor]]:
        for columns in _slices(count, width):
            row_slices = [
                rows
                for rows in _slices(len(images), height)
                if select is None or select(rows, columns)
            ]
            if not row_slices:
                continue
            batch = texts[columns] if order is None else texts[order[columns]]
            prepared = prepare(batch.to(device))
            for rows in row_slices:
                yield rows, columns, score(images[rows].to(device), prepared)

    return generate()


def block_shape(
    images: ImageSets,
    texts: TextSets,
    max_memory: int = MAX_MEMORY,
    device: torch.device | str = "cpu",
) -> tuple[int, int]:
    """The number of images and texts to score at once, within the memory bound.

    On a CPU a block should be small enough to stay in the cache until it is reduced, and large
    enough that threads rarely wait for each other, which is expensive on shared cores.
    """
    if max_memory < 2**20:
        raise OptionError(f"max_memory is {max_memory} bytes; give at least {2**20} (1 MiB)")
    budget = min(max_memory, CPU_BLOCK) if torch.device(device).type == "cpu" else max_memory
    # Per pair: cosines, intermediate values and reductions. Per text: its reordered copy.
    number = max(4, images.element_size(), texts.element_size())
    pair_bytes = 4 * number * images.shape[1] * texts.shape[1]
    text_bytes = 2 * number * texts.shape[1] * texts.shape[2]
    rows = min(len(images), 1024) or 1
    columns = budget // (pair_bytes * rows + text_bytes)
    while columns < 64 and rows > 1:
        rows = (rows + 1) // 2
        columns = budget // (pair_bytes * rows + text_bytes)
    # Whole vector registers: a ragged inner dimension slows the product and the reductions.
    return rows, max(1, columns // 64 * 64 or columns)


def _slices(count: int, size: int) -> Iterator[slice]:
    return (slice(start, min(start + size, count)) for start in range(0, count, size))


def _block_scorer(
    similarity: str | Similarity, options: dict[str, Any]
) -> tuple[Callable[[Tensor], Any], Callable[[Tensor, Any], Tensor]]:
    """A function that prepares a block of texts, and one that scores images against it."""
    if not isinstance(similarity, str):
        return lambda texts: texts, lambda images, texts: similarity(images, texts, **options)
    check_choice("similarity", similarity, _REDUCTIONS)
    known = ["alpha"] if similarity == "smooth_chamfer" else []
    for name in options:
        if name not in known:
            has = ", ".join(known) or "none"
            raise OptionError(f"{similarity} has no option {name}; it has: {has}")
    compiled = partial(compiled_smooth_chamfer, **options)
    scorer = BlockScorer(
        partial(_REDUCTIONS[similarity], **options),
        compiled if similarity == "smooth_chamfer" else None,
    )
    return scorer.by_slot, scorer
