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
from typing import NamedTuple

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


class Side(NamedTuple):
    """Images or texts.

    Attributes:
        local: local features.
        mask: True where an input is real.
        prepared: what the score reads besides these, each with one row per item. Axis 1 of those of
            texts are the words, or has length 1.
    """

    local: Local
    mask: Mask
    prepared: tuple[Tensor, ...] = ()

    def select(self, *rows: slice | Tensor) -> Side:
        """Some of the items and, with a second index, some of their inputs."""
        return Side(self.local[rows], self.mask[rows], tuple(x[rows] for x in self.prepared))


PairScores = Callable[[Side, Side], tuple[Tensor, ...]]
"""From prepared images and texts to scores (images, texts), and to further tensors whose last axis
are the texts."""


def unprepared(side: Side) -> Side:
    """The items as they are."""
    return side


def score_in_blocks(
    score: PairScores,
    images: Side,
    texts: Side,
    floats_per_pair: int,
    max_memory: int = MAX_MEMORY,
    prepare: Callable[[Side], Side] = unprepared,
    whole_columns: bool = False,
) -> tuple[Tensor, ...]:
    """Scores of all pairs, as many at once as fit into `max_memory` bytes.

    Args:
        score: what computes a block.
        images: all images.
        texts: all texts.
        floats_per_pair: numbers that `score` holds per pair.
        max_memory: bytes for one block of pairs.
        prepare: run once per block of images; its result is what `score` reads.
        whole_columns: score a text against all images at once, because it uses their statistics.
    """
    images, texts = _without_padding("images", images), _without_padding("texts", texts)
    bytes_per_pair = max(1, floats_per_pair * images.local.element_size())
    if whole_columns or torch.is_grad_enabled():
        prepared = prepare(images)
        size = max(1, int(max_memory // (len(images.local) * bytes_per_pair)))
        if size >= len(texts.local):
            return score(prepared, texts)
        blocks = [
            checkpoint(score, prepared, texts.select(rows), use_reentrant=False)
            for rows in _blocks(len(texts.local), size)
        ]
        return tuple(torch.cat(parts, dim=-1) for parts in zip(*blocks, strict=True))
    pairs = max(1, int(min(max_memory, TILE_MEMORY) // bytes_per_pair))
    return (_score_tiles(score, images, texts, pairs, prepare),)


def _score_tiles(
    score: PairScores, images: Side, texts: Side, pairs: int, prepare: Callable[[Side], Side]
) -> Float[Tensor, "images texts"]:
    """Scores without gradients, `pairs` at a time, short texts first."""
    columns = torch.arange(1, texts.mask.shape[1] + 1, device=texts.mask.device)
    ends, order = (texts.mask * columns).amax(dim=1).sort()
    # Few texts, so that those of a tile have nearly the same length.
    text_rows = min(len(order), max(1, math.isqrt(pairs)), TEXTS_PER_TILE)
    image_rows = min(len(images.local), pairs // text_rows)
    text_rows = min(len(order), pairs // image_rows)
    scores = images.local.new_empty(len(images.local), len(order))
    for rows in _blocks(len(images.local), image_rows):
        prepared = prepare(images.select(rows))
        for block in _blocks(len(order), text_rows):
            tile, words = order[block], int(ends[block][-1])
            tile_scores, *_ = score(prepared, texts.select(tile, slice(words)))
            scores[rows, tile] = tile_scores.to(scores.dtype)
    return scores


def _blocks(count: int, size: int) -> Iterator[slice]:
    return (slice(start, start + size) for start in range(0, count, size))


def _without_padding(name: str, side: Side) -> Side:
    """Zeros for padding, which may hold anything, NaN included."""
    check_local(name, side.local, side.mask)
    if can_inspect(side.mask) and side.mask.all():
        return side
    return side._replace(local=side.local.masked_fill(~side.mask[..., None], 0))


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
