"""Upper bounds of smooth-Chamfer for blocks of items, from their quantized codes.

`mean_bounds` and `element_bounds` fill `out` with numbers that no exact score exceeds (proof in
docs/exact-search.md): the first reads one vector per item, the second all K. `estimates` scores
selected items and says how far the exact scores can be from the estimates.
"""

from __future__ import annotations

import torch
from jaxtyping import Float, Int64
from torch import Tensor

from diverset.index.int8_matmul import int8_matmul, matmul_dtype
from diverset.index.quantized_codes import Codes, QuantizedQueries, rounding_margin
from diverset.similarity import fast_smooth_chamfer

BLOCK = 2**18  # products that are still in the cache when they are reduced
MIN_BLOCK_ITEMS = 8192  # with fewer items at once, calls cost more than arithmetic


class QueryBatch:
    """Quantized query sets stacked into one matrix, and the buffers of their products."""

    def __init__(self, queries: QuantizedQueries, alpha: float) -> None:
        self.queries, self.alpha = queries, alpha
        _, self.elements, self.dim = queries.codes.shape
        self.codes = torch.from_numpy(queries.codes).flatten(0, 1)
        self.scale = torch.from_numpy(queries.scale)[:, None]
        self.norm = torch.from_numpy(queries.norm)[:, None]
        self.deviation = torch.from_numpy(queries.deviation)[:, None]
        self.block = max(MIN_BLOCK_ITEMS, BLOCK // len(self.codes) // 64 * 64)
        dtype = matmul_dtype(self.dim, self.elements)
        size = len(queries) * self.block
        self._products = torch.empty(size * self.elements, dtype=dtype)
        self._best = torch.empty(size * self.elements, dtype=dtype)
        self._sums = torch.empty(2 * size, dtype=dtype)

    def __len__(self) -> int:
        return len(self.queries)

    def products(self, codes: Tensor) -> Tensor:
        """(queries, query elements, items), overwritten by the next call."""
        out = self._products[: len(self.codes) * len(codes)].view(len(self.codes), len(codes))
        return int8_matmul(self.codes, codes, out).view(len(self), self.elements, len(codes))

    def best(self, items: int) -> Tensor:
        return self._best[: len(self.codes) * items].view(len(self), self.elements, items)

    def sums(self, items: int) -> tuple[Tensor, Tensor]:
        first, second = self._sums[: 2 * len(self) * items].view(2, len(self), items)
        return first, second


def mean_bounds(batch: QueryBatch, part: Codes, out: Float[Tensor, "queries items"]) -> None:
    """From the means, with spread and radius; log sum_i e^(alpha a_i) <= alpha max_i + log K."""
    constant = torch.from_numpy(batch.queries.mean_constant(batch.alpha))[:, None]
    for start in range(0, len(part), batch.block):
        block = slice(start, start + batch.block)
        products = batch.products(part.means[block])
        total, best = batch.sums(products.shape[2])
        _sum_and_max(products, total, best)
        bound = out[:, block]
        torch.add(torch.mul(best, batch.elements, out=best), total, out=total)  # K (max + mean)
        torch.mul(total, part.mean_scale[block], out=bound)
        bound.mul_(batch.scale / (2 * batch.elements)).add_(part.spread[block]).add_(constant)
        bound.addcmul_(part.radius[block].expand_as(bound), batch.deviation)


def element_bounds(batch: QueryBatch, part: Codes, out: Float[Tensor, "queries items"]) -> None:
    """From the elements: Chamfer of the codes, their error, and log(K) / alpha."""
    part.check_elements()
    elements = len(part.elements)
    constant = torch.from_numpy(batch.queries.element_constant(batch.alpha, elements))[:, None]
    for start in range(0, len(part), batch.block):
        block = slice(start, start + batch.block)
        items = len(part.scale[block])
        best, (to_query, to_item) = batch.best(items), batch.sums(items)
        for element, codes in enumerate(part.elements[:, block]):
            products = batch.products(codes)
            best.copy_(products) if element == 0 else torch.maximum(best, products, out=best)
            _sum_and_max(products, None, to_query)
            to_item.copy_(to_query) if element == 0 else to_item.add_(to_query)
        _sum_and_max(best, to_query, None)
        bound = out[:, block]
        torch.mul(to_query, 1 / (2 * batch.elements), out=bound)
        bound.add_(to_item, alpha=1 / (2 * elements))
        bound.mul_(part.scale[block]).mul_(batch.scale)
        bound.addcmul_(part.error[block].expand_as(bound), batch.norm).add_(constant)


def estimates(
    query: QuantizedQueries,
    part: Codes,
    positions: Int64[Tensor, " chosen"],
    alpha: float,
    exact_query: bool,
) -> tuple[Float[Tensor, " chosen"], Float[Tensor, " chosen"]]:
    """Scores of one query with some items from their codes, and how far the exact ones can be off.

    `exact_query` uses the query itself instead of its codes, which is slower and tighter.
    """
    part.check_elements(positions)
    codes = part.elements.index_select(1, positions)
    elements, items, dim = codes.shape
    flat = codes.view(elements * items, dim)
    if exact_query:
        products = torch.from_numpy(query.exact[0]) @ flat.float().T
    else:
        products = int8_matmul(torch.from_numpy(query.codes[0]), flat).float() * query.scale.item()
    cosines = products.view(1, -1, elements, items) * part.scale[positions]
    score = fast_smooth_chamfer(cosines, alpha)[0]
    constant = rounding_margin(dim, alpha) if exact_query else query.margin(alpha).item()
    return score, part.error[positions] * query.norm.item() + constant


def _sum_and_max(products: Tensor, total: Tensor | None, best: Tensor | None) -> None:
    """Over the query's elements, in place: faster than torch's reductions of a short dimension."""
    for index in range(products.shape[1]):
        row = products[:, index]
        if total is not None:
            total.copy_(row) if index == 0 else total.add_(row)
        if best is not None:
            best.copy_(row) if index == 0 else torch.maximum(best, row, out=best)
