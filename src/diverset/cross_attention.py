"""SCAN's stacked cross-attention, the baseline that must see image and text together.

Its "sets" are all local features: regions or cells, and words, as many as a sample has, with zero
rows for padding. Each word looks for what it means among the regions (text-to-image), or each
region among the words, and a pair's score says how well that went. Nothing can be precomputed
beyond the local features, which is why it costs two orders of magnitude more than a set.
"""

from __future__ import annotations

import torch
from jaxtyping import Float
from torch import Tensor
from torch.nn import functional as F

from diverset.errors import InputError, OptionError, ShapeError, check_choice

SLOPE = 0.1
EPSILON = 1e-8


def scan(
    images: Float[Tensor, "images regions dim"],
    texts: Float[Tensor, "texts words dim"],
    direction: str = "t2i",
    attention: float = 9.0,
    sharpness: float = 6.0,
    pooling: str = "lse",
) -> Float[Tensor, "images texts"]:
    """SCAN similarity of every image to every text.

    Args:
        images: l2-normalised regions, zero rows for padding.
        texts: l2-normalised words, zero rows for padding.
        direction: "t2i", words attend to regions, or "i2t", regions to words.
        attention: lambda 1, how sharply it attends (9 for t2i, 4 for i2t).
        sharpness: lambda 2 of the log-sum-exp over queries (6 / 5 on Flickr30K, 20 on COCO).
        pooling: "lse" or "mean" over the queries.
    """
    check_choice("direction", direction, ("t2i", "i2t"))
    check_choice("pooling", pooling, ("lse", "mean"))
    if not (attention > 0 and sharpness > 0):
        raise OptionError(f"attention is {attention}, sharpness {sharpness}; give numbers above 0")
    _check_local(images, texts)
    if direction == "t2i":
        return _attend(texts, images, attention, sharpness, pooling).T
    return _attend(images, texts, attention, sharpness, pooling)


def _attend(
    queries: Float[Tensor, "a queries dim"],
    contexts: Float[Tensor, "b inputs dim"],
    attention: float,
    sharpness: float,
    pooling: str,
) -> Float[Tensor, "a b"]:
    count, words, dim = queries.shape
    asking, offered = queries.abs().sum(dim=-1) > 0, contexts.abs().sum(dim=-1) > 0
    # One product for all pairs, the context's inputs before the queries: everything below then
    # runs along contiguous memory.
    cosines = contexts @ queries.reshape(-1, dim).T  # (b, inputs, a * queries)
    raw = F.leaky_relu(cosines, SLOPE).view(-1, cosines.shape[1], count, words)
    # l2-normalised over the queries of a sample, then a softmax over the context.
    raw = raw / raw.square().sum(dim=3, keepdim=True).clamp_min(EPSILON**2).sqrt()
    hidden = ~offered[:, :, None]
    weights = (attention * raw.flatten(2)).masked_fill(hidden, -torch.inf).softmax(dim=1)
    # cos(q, sum w_n c_n) from cosines and the context's Gram matrix: the attended vectors
    # themselves would take `dim` times the memory.
    gram = contexts @ contexts.transpose(1, 2)
    length = (weights * (gram @ weights)).sum(dim=1).clamp_min(EPSILON).sqrt()
    found = ((weights * cosines).sum(dim=1) / length).view(-1, count, words)
    if pooling == "mean":
        return ((found * asking).sum(dim=-1) / asking.sum(dim=-1)).T
    return ((sharpness * found).masked_fill(~asking, -torch.inf).logsumexp(dim=-1) / sharpness).T


def _check_local(images: Tensor, texts: Tensor) -> None:
    for name, local in (("images", images), ("texts", texts)):
        if local.ndim != 3:
            raise ShapeError(f"{name} has shape {tuple(local.shape)}; give (items, inputs, dim)")
        norms = torch.linalg.vector_norm(local.detach().float(), dim=-1)
        good = ((norms - 1).abs() <= 1e-2) | (norms == 0)
        if not good.all() or not (norms > 0).any(dim=1).all():
            raise InputError(f"{name} must hold l2-normalised rows, zero ones for padding only")
    if images.shape[2] != texts.shape[2]:
        raise ShapeError(f"images are {images.shape[2]} wide and texts {texts.shape[2]}")
