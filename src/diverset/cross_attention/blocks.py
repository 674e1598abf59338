"""Scoring all pairs of images and texts in blocks, within a memory bound.

Every cross-attention similarity takes local features of both sides with masks (True where an input
is real) and returns a score for every pair. Memory grows with images x texts x inputs. With
gradients, texts are processed in blocks, and a block is recomputed in the backward pass instead of
stored. Without, tiles of images x texts are small enough for the cache of a CPU, and texts of
similar length share a tile, so that little padding is computed.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator

import torch
from jaxtyping import Bool, Float
from torch import Tensor
from torch.utils.checkpoint import checkpoint

from diverset.errors import InputError, ShapeError
from diverset.types import can_inspect

MAX_MEMORY = 512 * 2**20
TILE_MEMORY = 32 * 2**20
TEXTS_PER_TILE = 16

Local = Float[Tensor, "items inputs dim"]
Mask = Bool[Tensor, "items inputs"]
Side = tuple[Tensor, ...]
"""Local features, mask and further tensors with one row per item. Axis 1 of texts are their words,
or has length 1."""
PairScores = Callable[[Side, Side], tuple[Tensor, ...]]
"""From prepared images and texts to scores (images, texts), and to further tensors whose last axis
are the texts."""


def unprepared(*images: Tensor) -> Side:
    """Images as they are."""
    return images


def score_in_blocks(
    score: PairScores,
    images: Side,
    texts: Side,
    floats_per_pair: int,
    max_memory: int = MAX_MEMORY,
    prepare: Callable[..., Side] = unprepared,
    whole_columns: bool = False,
) -> tuple[Tensor, ...]:
    """Scores of all pairs, as many at once as fit into `max_memory` bytes.

    Args:
        score: what computes a block.
        images: local features, mask and further tensors of all images.
        texts: the same of all texts.
        floats_per_pair: numbers that `score` holds per pair.
        max_memory: bytes for one block of pairs.
        prepare: run once per block of images; its result is what `score` reads.
        whole_columns: score a text against all images at once, because it uses their statistics.
    """
    images, texts = _without_padding("images", images), _without_padding("texts", texts)
    bytes_per_pair = max(1, floats_per_pair * images[0].element_size())
    if whole_columns or torch.is_grad_enabled():
        prepared = prepare(*images)
        size = max(1, int(max_memory // (len(images[0]) * bytes_per_pair)))
        if size >= len(texts[0]):
            return score(prepared, texts)
        blocks = [_recomputed(score, prepared, block) for _, block in _blocks(texts, size)]
        return tuple(torch.cat(parts, dim=-1) for parts in zip(*blocks, strict=True))
    pairs = max(1, int(min(max_memory, TILE_MEMORY) // bytes_per_pair))
    return (_score_tiles(score, images, texts, pairs, prepare),)


def _recomputed(score: PairScores, images: Side, texts: Side) -> tuple[Tensor, ...]:
    if not torch.is_grad_enabled():
        return score(images, texts)
    parts: tuple[Tensor, ...] = checkpoint(score, images, texts, use_reentrant=False)
    return parts


def _score_tiles(
    score: PairScores, images: Side, texts: Side, pairs: int, prepare: Callable[..., Side]
) -> Float[Tensor, "images texts"]:
    """Scores without gradients, `pairs` at a time, short texts first."""
    ends = (texts[1] * torch.arange(1, texts[1].shape[1] + 1, device=texts[1].device)).amax(dim=1)
    ends, order = ends.sort()
    # Few texts, so that those of a tile have nearly the same length.
    text_rows = min(len(order), max(1, math.isqrt(pairs)), TEXTS_PER_TILE)
    image_rows = min(len(images[0]), pairs // text_rows)
    text_rows = min(len(order), pairs // image_rows)
    scores = images[0].new_empty(len(images[0]), len(order))
    for rows, block in _blocks(images, image_rows):
        prepared = prepare(*block)
        for columns, (tile,) in _blocks((order,), text_rows):
            words = int(ends[columns][-1])
            tile_texts = tuple(tensor[tile, :words] for tensor in texts)
            scores[rows, tile] = score(prepared, tile_texts)[0].to(scores.dtype)
    return scores


def _blocks(side: Side, size: int) -> Iterator[tuple[slice, Side]]:
    for start in range(0, len(side[0]), size):
        rows = slice(start, start + size)
        yield rows, tuple(tensor[rows] for tensor in side)


def _without_padding(name: str, side: Side) -> Side:
    """The tensors with zeros for padding, which may hold anything, NaN included."""
    local, mask, *others = side
    check_local(name, local, mask)
    if can_inspect(mask) and mask.all():
        return side
    return local.masked_fill(~mask[..., None], 0), mask, *others


def check_local(name: str, local: Tensor, mask: Tensor) -> None:
    """Raise unless `local` is (items, inputs, dim) and `mask` (items, inputs), none empty."""
    if local.ndim != 3 or mask.shape != local.shape[:2]:
        raise ShapeError(
            f"{name} have shape {tuple(local.shape)} and mask {tuple(mask.shape)}; give "
            "(items, inputs, dim) and (items, inputs)"
        )
    if mask.dtype != torch.bool or (can_inspect(mask) and not mask.any(dim=1).all()):
        raise InputError(
            f"the mask of {name} is {mask.dtype} or has items without inputs; give booleans, True "
            "for at least one input of every item"
        )


def nonzero_rows(local: Local) -> Mask:
    """The mask of local features that are padded with zero rows."""
    return (local != 0).any(dim=-1)
