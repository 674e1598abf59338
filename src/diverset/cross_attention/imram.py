"""IMRAM: iterative matching with recurrent attention memory (Chen et al., CVPR 2020).

Words attend to regions (and regions to words) several times; between the steps a gated memory
mixes each query with what it attended to. The score is the sum of all steps' cosines to the
original query.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor, nn

from diverset.config import IMRAM_MODES
from diverset.cross_attention.attention import (
    EPSILON,
    all_products,
    attended_length,
    gram_matrix,
    normalized,
    overwrite,
    tanh,
    unscaled_weights,
)
from diverset.cross_attention.blocks import MAX_MEMORY, Local, Mask, Side, score_in_blocks
from diverset.cross_attention.linear import linear, operand
from diverset.errors import check_choice


class Memory(nn.Module):
    """The gated update of a query x by what it attended to, c: g x + (1 - g) tanh(W [x ; c])."""

    def __init__(self, dim: int) -> None:
        super().__init__()
        self.linear, self.gate = nn.Linear(2 * dim, dim), nn.Linear(2 * dim, dim)

    def maps(self) -> MemoryMaps:
        """The maps of the gate and of the new value, one below the other."""
        weights = operand(torch.cat([self.gate.weight, self.linear.weight]))
        query, context = weights.chunk(2, dim=1)
        bias = torch.cat([self.gate.bias, self.linear.bias])
        return MemoryMaps(query.contiguous(), context.contiguous(), bias)


class MemoryMaps(NamedTuple):
    """A memory, ready to update queries.

    The maps are applied to x and to the inputs of the context, whose attended sum is c: a context
    has far fewer inputs than there are pairs with it.
    """

    query: Float[Tensor, "2*dim dim"]
    context: Float[Tensor, "2*dim dim"]
    bias: Float[Tensor, " 2*dim"]

    def of_contexts(self, contexts: Local) -> tuple[Tensor, Tensor]:
        """The Gram matrices, and the contexts' part of the gate and of the new value."""
        return gram_matrix(contexts), linear(contexts, self.context)

    def of_queries(self, queries: Tensor) -> Float[Tensor, "*items queries 2*dim"]:
        """The query's part, with the biases."""
        return linear(queries, self.query, self.bias)

    def update(
        self, queries: Tensor, own: Tensor, weights: Tensor, contexts: Tensor
    ) -> Float[Tensor, "contexts queries dim"]:
        """The updated queries: `own` is their part, `contexts` the other part of every input."""
        joined = torch.baddbmm(own, weights.transpose(1, 2), contexts).to(queries.dtype)
        gate, new = joined.chunk(2, dim=-1)
        return torch.lerp(tanh(new), queries, overwrite(gate, Tensor.sigmoid))


Maps = tuple[MemoryMaps | None, MemoryMaps | None]
"""Those of words and of regions as queries."""


class Imram(nn.Module):
    """IMRAM similarity of every image to every text.

    Args:
        dim: width of local features.
        steps: K, how often a query attends (paper: 3).
        sharpness: lambda of the attention (9 on Flickr30K, 11 on COCO).
        normalize_queries: l2-normalise the updated queries; the published models do not.
        mode: "text" (words attend to regions), "image" (regions to words) or "full", their sum.
        max_memory: bytes for one block of pairs.
    """

    def __init__(
        self,
        dim: int,
        steps: int = 3,
        sharpness: float = 9.0,
        normalize_queries: bool = False,
        mode: str = "full",
        max_memory: int = 4 * MAX_MEMORY,
    ) -> None:
        super().__init__()
        check_choice("mode", mode, IMRAM_MODES)
        self.steps, self.sharpness, self.mode = steps, sharpness, mode
        self.normalize_queries, self.max_memory = normalize_queries, max_memory
        self.text_memory = Memory(dim) if mode != "image" else None
        self.image_memory = Memory(dim) if mode != "text" else None

    def forward(
        self, images: Local, image_mask: Mask, texts: Local, text_mask: Mask
    ) -> Float[Tensor, "images texts"]:
        inputs = max(images.shape[1], texts.shape[1])
        floats = inputs * (6 * images.shape[2] + 4 * min(images.shape[1], inputs))
        if torch.is_grad_enabled():  # which keep every step
            floats *= self.steps
        maps = self._maps()
        scores, *_ = score_in_blocks(
            lambda images, texts: (self._step_scores(images, texts, maps).sum(dim=0),),
            Side(images, image_mask), Side(texts, text_mask), floats, self.max_memory,
            lambda images: _prepare(images, maps),
        )  # fmt: skip
        return scores

    def _maps(self) -> Maps:
        text, image = self.text_memory, self.image_memory
        return None if text is None else text.maps(), None if image is None else image.maps()

    def _step_scores(
        self, images: Side, texts: Side, maps: Maps
    ) -> Float[Tensor, "steps images texts"]:
        """The score of every step, both directions one after the other."""
        text_maps, image_maps = maps
        scores: list[Tensor] = []
        if text_maps is not None:
            queries = texts._replace(prepared=(text_maps.of_queries(texts.local),))
            contexts = images._replace(prepared=images.prepared[:2])
            scores += self._match(text_maps, queries, contexts)
        if image_maps is not None:
            queries = images._replace(prepared=images.prepared[-1:])
            contexts = texts._replace(prepared=image_maps.of_contexts(texts.local))
            scores += [step.T for step in self._match(image_maps, queries, contexts)]
        return torch.stack(scores)

    def _match(
        self, memory: MemoryMaps, items: Side, contexts: Side
    ) -> list[Float[Tensor, "contexts items"]]:
        """The scores of every step."""
        originals, mask, (own,) = items
        inputs, context_mask, (gram, context_parts) = contexts
        flat = originals.flatten(0, 1)
        queries, own = flat.expand(len(inputs), -1, -1), own.flatten(0, 1)
        lengths: Tensor = torch.linalg.vector_norm(originals, dim=-1)
        first = cosines = all_products(inputs, originals)
        scores = []
        for step in range(self.steps):
            weights = unscaled_weights(cosines, context_mask, self.sharpness, mask)
            weights = weights / weights.sum(dim=1, keepdim=True)
            products = (weights * first).sum(dim=1)
            norms = (lengths * attended_length(weights, gram)).clamp_min(EPSILON)
            scores.append((products / norms * mask).sum(dim=-1) / mask.sum(dim=-1))
            if step + 1 < self.steps:
                queries = memory.update(queries, own, weights.flatten(2), context_parts)
                queries = normalized(queries) if self.normalize_queries else queries
                cosines = (inputs @ queries.transpose(1, 2)).view_as(first).to(first.dtype)
                own = memory.of_queries(queries) if step + 2 < self.steps else own
        return scores


def _prepare(images: Side, maps: Maps) -> Side:
    """Images as contexts of words and as queries, as far as they are either."""
    text_maps, image_maps = maps
    prepared: tuple[Tensor, ...] = ()
    if text_maps is not None:
        prepared += text_maps.of_contexts(images.local)
    if image_maps is not None:
        prepared += (image_maps.of_queries(images.local),)
    return images._replace(prepared=prepared)
