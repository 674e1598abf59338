"""The cosines c(x, y) of all pairs of elements, which every similarity reduces to scores."""

from __future__ import annotations

import torch
from jaxtyping import Float
from torch import Tensor

ImageSets = Float[Tensor, "images slots dim"]
TextSets = Float[Tensor, "texts text_slots dim"]
Cosines = Float[Tensor, "images slots text_slots texts"]
Scores = Float[Tensor, "images texts"]


def pairwise_cosines(images: ImageSets, texts: TextSets) -> Cosines:
    """One matrix product, in float32 or better; texts are innermost, so reductions vectorise."""
    count, slots, dim = images.shape
    rows, columns = images.reshape(count * slots, dim), texts.transpose(0, 1).reshape(-1, dim)
    common = torch.promote_types(rows.dtype, columns.dtype)
    product = rows.to(common) @ columns.to(common).T
    wide = product.to(torch.promote_types(common, torch.float32))
    return wide.view(count, slots, texts.shape[1], len(texts))
