"""The product of 8-bit integers under the scan, as exact integers.

torch's `_int_mm` is several times faster than a float32 product where the processor has
instructions for it. It is no public name, and some processors saturate on the way; so it is tried
on the largest numbers first and replaced by a float32 product, which is exact up to 2**24, if it
is missing or wrong. It does not know what the numbers mean.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

import torch
from jaxtyping import Int8, Shaped
from torch import Tensor

LARGEST = 127  # codes lie within -127..127, so that a sign costs nothing
MULTIPLE = 8  # widths that every backend of _int_mm accepts


def products(
    queries: Int8[Tensor, "rows dim"], codes: Int8[Tensor, "items dim"], out: Tensor | None = None
) -> Shaped[Tensor, "rows items"]:
    """All inner products, in numbers of `product_type` (exact up to a width of 1,040).

    >>> products(torch.ones(2, 8, dtype=torch.int8), torch.full((3, 8), 2, dtype=torch.int8)).int()
    tensor([[16, 16, 16],
            [16, 16, 16]], dtype=torch.int32)
    """
    kind = product_type(queries.shape[1]) if out is None else out.dtype
    if kind == torch.int32:
        return _integer(queries, codes, out)
    return torch.mm(queries.float(), codes.float().T, out=out)


def product_type(dim: int, slots: int = 1) -> torch.dtype:
    """int32 where the processor multiplies bytes and twice `slots` products fit, else float32."""
    fits = dim % MULTIPLE == 0 and 2 * slots * dim * LARGEST**2 < 2**31
    return torch.int32 if fits and has_integer_product() else torch.float32


def _integer(queries: Tensor, codes: Tensor, out: Tensor | None = None) -> Tensor:
    if out is None:
        out = torch.empty(len(queries), len(codes), dtype=torch.int32)
    product: Tensor = torch._int_mm(queries, codes.T, out=out)
    return product


@cache
def has_integer_product(integer: Callable[..., Tensor] = _integer) -> bool:
    """Whether `_int_mm` exists here and is right where saturation would show."""
    generator = torch.Generator().manual_seed(0)
    for rows, items in ((1, 1), (4, 33), (128, 257)):
        for low, high in ((-LARGEST, LARGEST + 1), (LARGEST, LARGEST + 1), (-LARGEST, 1 - LARGEST)):
            shape = (rows + items, 64)
            both = torch.randint(low, high, shape, dtype=torch.int8, generator=generator)
            queries, codes = both[:rows], both[rows:]
            try:
                found = integer(queries, codes)
            except (RuntimeError, AttributeError):
                return False
            if not torch.equal(found.double(), queries.double() @ codes.double().T):
                return False
    return True
