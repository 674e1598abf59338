"""Exact products of 8-bit integers for the scan.

torch's int8 product is several times faster than a float32 product where the processor has
instructions for it. Where it is missing or inexact, a float32 product (exact up to 2**24) replaces
it.
"""

from __future__ import annotations

import torch
from jaxtyping import Int8, Shaped
from torch import Tensor

from diverset.runtime import torch_private

MAX_CODE = torch_private.INT8_MAX  # codes lie within -127..127
WIDTH_MULTIPLE = 8  # every backend of the int8 product accepts widths of this multiple


def int8_matmul(
    queries: Int8[Tensor, "rows dim"], codes: Int8[Tensor, "items dim"], out: Tensor | None = None
) -> Shaped[Tensor, "rows items"]:
    """All inner products, of type `matmul_dtype`; exact up to a dimension of 1,040.

    >>> ones, twos = torch.ones(2, 8, dtype=torch.int8), torch.full((3, 8), 2, dtype=torch.int8)
    >>> int8_matmul(ones, twos).int()
    tensor([[16, 16, 16],
            [16, 16, 16]], dtype=torch.int32)
    """
    dtype = matmul_dtype(queries.shape[1]) if out is None else out.dtype
    if dtype == torch.int32:
        return torch_private.int8_matmul(queries, codes, out)
    return torch.mm(queries.float(), codes.float().T, out=out)


def matmul_dtype(dim: int, elements: int = 1) -> torch.dtype:
    """int32 if the int8 product works here and `2 * elements` products add up in it, or float32."""
    fits = dim % WIDTH_MULTIPLE == 0 and 2 * elements * dim * MAX_CODE**2 < 2**31
    return torch.int32 if fits and torch_private.has_int8_matmul() else torch.float32
