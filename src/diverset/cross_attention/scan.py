"""SCAN: stacked cross-attention (Lee et al., ECCV 2018).

Each word attends to the regions (text to image), or each region to the words. The score of
a query is its cosine to what it attended to; the score of a pair pools them over the queries.
"""

from __future__ import annotations

import torch
from jaxtyping import Float
from torch import Tensor

from diverset.config import DIRECTIONS, SCAN_POOLINGS
from diverset.cross_attention.attention import (
    all_products,
    attended_length,
    overwrite,
    unscaled_weights,
    with_gram_matrix,
)
from diverset.cross_attention.blocks import (
    MAX_MEMORY,
    Local,
    Mask,
    Side,
    check_local,
    score_in_blocks,
    unprepared,
)
from diverset.errors import InputError, OptionError, check_choice
from diverset.similarity import UNIT_TOLERANCE, check_same_width
from diverset.types import can_inspect


def scan(
    images: Local,
    image_mask: Mask,
    texts: Local,
    text_mask: Mask,
    direction: str = "t2i",
    attention: float = 9.0,
    sharpness: float = 6.0,
    pooling: str = "lse",
    max_memory: int = 4 * MAX_MEMORY,
) -> Float[Tensor, "images texts"]:
    """SCAN similarity of every image to every text.

    Args:
        images: l2-normalised regions.
        image_mask: True for real regions.
        texts: l2-normalised words.
        text_mask: True for real words.
        direction: "t2i", words attend to regions, or "i2t", regions to words.
        attention: lambda 1, the inverse temperature of the attention (9 for t2i, 4 for i2t).
        sharpness: lambda 2 of the log-sum-exp over queries (6 / 5 on Flickr30K, 20 on COCO).
        pooling: "lse" or "mean" over the queries.
        max_memory: bytes for one block of pairs.
    """
    check_choice("direction", direction, DIRECTIONS)
    check_choice("pooling", pooling, SCAN_POOLINGS)
    if not (attention > 0 and sharpness > 0):
        raise OptionError(f"attention is {attention}, sharpness {sharpness}; give numbers above 0")
    check_same_width(images, texts)

    def score(images: Side, texts: Side) -> tuple[Tensor]:
        if direction == "t2i":
            cosines = _attend(texts, images, attention)
            return (_pool(cosines, texts.mask, sharpness, pooling),)
        cosines = _attend(images, with_gram_matrix(texts), attention)
        return (_pool(cosines, images.mask, sharpness, pooling).T,)

    _check_unit_rows("images", images, image_mask)
    _check_unit_rows("texts", texts, text_mask)
    sides = Side(images, image_mask), Side(texts, text_mask)
    floats = 8 * images.shape[1] * texts.shape[1]
    prepare = with_gram_matrix if direction == "t2i" else unprepared
    return score_in_blocks(score, *sides, floats, max_memory, prepare)[0]


def _attend(
    queries: Side, contexts: Side, attention: float
) -> Float[Tensor, "contexts items queries"]:
    """The cosine of every query to what it attended to in each context."""
    [gram] = contexts.prepared
    cosines = all_products(contexts.local, queries.local)
    weights = unscaled_weights(cosines, contexts.mask, attention)
    lengths = attended_length(weights, gram)
    return overwrite(weights, Tensor.mul, cosines).sum(dim=1) / lengths


def _pool(
    cosines: Float[Tensor, "contexts items queries"], mask: Mask, sharpness: float, pooling: str
) -> Float[Tensor, "contexts items"]:
    if pooling == "mean":
        return (cosines * mask).sum(dim=-1) / mask.sum(dim=-1)
    return (sharpness * cosines).masked_fill(~mask, -torch.inf).logsumexp(dim=-1) / sharpness


def _check_unit_rows(name: str, local: Local, mask: Mask) -> None:
    """Raise unless all real local features have unit length."""
    check_local(name, local, mask)
    if can_inspect(local):
        norms = torch.linalg.vector_norm(local.detach().float(), dim=-1)
        if not (((norms - 1).abs() <= UNIT_TOLERANCE) | ~mask).all():
            raise InputError(f"{name} must be l2-normalised; pass them through F.normalize")
