"""The cosines c(x, y) of all pairs of elements, which every similarity reduces to scores."""

from __future__ import annotations

from typing import NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor

Cosines = Float[Tensor, "images slots text_slots texts"]


class TextsBySlot(NamedTuple):
    """Texts reordered for the product: the first elements of all texts, then the second, ..."""

    elements: Float[Tensor, "text_slots_texts dim"]
    slots: int


def by_slot(texts: Float[Tensor, "texts text_slots dim"]) -> TextsBySlot:
    """Reorder texts once, to be multiplied with several blocks of images."""
    return TextsBySlot(texts.transpose(0, 1).reshape(-1, texts.shape[2]), texts.shape[1])


class Buffers:
    """Memory shared by all blocks: new pages for each would cost more than the arithmetic."""

    def __init__(self) -> None:
        self._flat: dict[torch.dtype, Tensor] = {}

    def take(self, rows: int, columns: int, like: Tensor, dtype: torch.dtype) -> Tensor:
        """A (rows, columns) tensor with arbitrary content."""
        flat = self._flat.get(dtype)
        if flat is None or len(flat) < rows * columns or flat.device != like.device:
            flat = torch.empty(rows * columns, dtype=dtype, device=like.device)
            self._flat[dtype] = flat
        return flat[: rows * columns].view(rows, columns)


def pairwise_cosines(
    images: Float[Tensor, "images slots dim"],
    texts: Float[Tensor, "texts text_slots dim"] | TextsBySlot,
    buffers: Buffers | None = None,
) -> Cosines:
    """One matrix product, in float32 or better; texts are innermost so that reductions vectorise.

    With `buffers` the result is only valid until the next call.
    """
    if isinstance(texts, Tensor):
        texts = by_slot(texts)
    count, slots, dim = images.shape
    rows, columns = images.reshape(count * slots, dim), texts.elements
    common = torch.promote_types(rows.dtype, columns.dtype)
    rows, columns = rows.to(common), columns.to(common)
    wide = torch.promote_types(common, torch.float32)
    if buffers is None:
        product = (rows @ columns.T).to(wide)
    else:
        product = buffers.take(len(rows), len(columns), rows, rows.dtype)
        torch.mm(rows, columns.T, out=product)
        if rows.dtype != wide:
            product = buffers.take(len(rows), len(columns), rows, wide).copy_(product)
    return product.view(count, slots, texts.slots, len(columns) // texts.slots)
