"""Scores of one block of images and texts, computed in memory that all blocks share."""

from __future__ import annotations

from collections.abc import Callable

import torch
from jaxtyping import Float
from torch import Tensor

from diverset.similarity.cosines import Cosines, ImageSets, Scores, TextSets

CPU_CACHE = 2 * 2**20  # bytes of cosines that stay in the cache of a core while they are reduced

TextsBySlot = Float[Tensor, "text_slots texts dim"]


class BlockScorer:
    """A matrix product, which is reduced to scores part by part.

    New pages for every block would cost more than the arithmetic, so buffers are kept.

    Args:
        reduce: cosines to scores; it may overwrite the cosines.
        compiled: the same for a whole product in any precision; None where it does not apply.
    """

    def __init__(
        self,
        reduce: Callable[[Cosines], Scores],
        compiled: Callable[[Cosines], Scores | None] | None = None,
    ) -> None:
        self._reduce, self._compiled = reduce, compiled
        self._buffers: dict[str, Tensor] = {}

    def by_slot(self, texts: TextSets) -> TextsBySlot:
        """Reorder texts, to be scored against several blocks of images; valid until the next call.

        The first elements of all texts come first, then the second, ...
        """
        slots_first = texts.transpose(0, 1)
        return self._buffer("texts", slots_first.shape, texts, texts.dtype).copy_(slots_first)

    def __call__(self, images: ImageSets, texts: TextsBySlot) -> Scores:
        count, slots, dim = images.shape
        text_slots, others, _ = texts.shape
        common = torch.promote_types(images.dtype, texts.dtype)
        rows, columns = images.reshape(-1, dim).to(common), texts.reshape(-1, dim).to(common)
        product = self._buffer("product", (len(rows), len(columns)), rows, common)
        torch.mm(rows, columns.T, out=product)
        product = product.view(count, slots, text_slots, others)
        found = self._compiled(product) if self._compiled is not None else None
        return self._in_parts(product) if found is None else found

    def _in_parts(self, product: Cosines) -> Scores:
        wide = torch.promote_types(product.dtype, torch.float32)
        step = max(1, len(product))
        if product.device.type == "cpu":
            step = max(1, CPU_CACHE * len(product) // max(1, product.numel() * wide.itemsize))
        scores = []
        for part in torch.split(product, step):
            if product.dtype != wide:
                part = self._buffer("cosines", part.shape, part, wide).copy_(part)
            scores.append(self._reduce(part))
        return torch.cat(scores)

    def _buffer(
        self, name: str, shape: tuple[int, ...], like: Tensor, dtype: torch.dtype
    ) -> Tensor:
        """A tensor with arbitrary content, valid until the next one of this name."""
        size = torch.Size(shape).numel()
        flat = self._buffers.get(name)
        if flat is None or len(flat) < size or (flat.dtype, flat.device) != (dtype, like.device):
            flat = self._buffers[name] = torch.empty(size, dtype=dtype, device=like.device)
        return flat[:size].view(shape)
