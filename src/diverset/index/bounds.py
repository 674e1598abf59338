"""Upper bounds of smooth-Chamfer for whole blocks of items, from their codes.

Both functions fill `out` with numbers that no exact score exceeds (proof in docs/index.md):
`mean_bounds` reads one vector an item, `element_bounds` all K. `estimates` scores chosen items and
says how far off it can be. They do not know which items are asked for, nor why.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from jaxtyping import Float, Int64
from torch import Tensor

from diverset.index.codes import Codes, Query, longest, slack
from diverset.index.kernel import product_type, products
from diverset.similarity import reduce_smooth_chamfer

BLOCK = 2**18  # products that are still in the cache when they are reduced
FEWEST = 8192  # items at once; below, calls cost more than arithmetic


class Batch:
    """Query sets side by side, and the memory their products go to."""

    def __init__(self, queries: Sequence[Query], alpha: float) -> None:
        self.queries, self.alpha = queries, alpha
        self.slots, self.dim = queries[0].codes.shape
        self.codes = torch.cat([query.codes for query in queries])
        self.scale = torch.tensor([query.scale for query in queries])[:, None]
        self.norm = torch.tensor([query.norm for query in queries])[:, None]
        self.error = torch.tensor([query.error for query in queries])[:, None]
        self.block = max(FEWEST, BLOCK // len(self.codes) // 64 * 64)
        kind = product_type(self.dim, self.slots)
        size = len(queries) * self.block
        self._products = torch.empty(size * self.slots, dtype=kind)
        self._best = torch.empty(size * self.slots, dtype=kind)
        self._sums = torch.empty(2 * size, dtype=kind)

    def __len__(self) -> int:
        return len(self.queries)

    def products(self, codes: Tensor) -> Tensor:
        """(queries, query slots, items), overwritten by the next call."""
        out = self._products[: len(self.codes) * len(codes)].view(len(self.codes), len(codes))
        return products(self.codes, codes, out).view(len(self), self.slots, len(codes))

    def best(self, items: int) -> Tensor:
        return self._best[: len(self.codes) * items].view(len(self), self.slots, items)

    def sums(self, items: int) -> tuple[Tensor, Tensor]:
        first, second = self._sums[: 2 * len(self) * items].view(2, len(self), items)
        return first, second


def mean_bounds(batch: Batch, part: Codes, out: Float[Tensor, "queries items"]) -> None:
    """From the means: c_ij <= <q_i, m'> + |q_i| rho_j, and LSE_i <= max_i + log(K) / alpha."""
    beyond = (batch.norm - 1).clamp(min=0) * (1 + longest(batch.dim))
    smooth = math.log(batch.slots) / (2 * batch.alpha)
    constant = beyond + batch.error * longest(batch.dim) + (smooth + slack(batch.dim, batch.alpha))
    for start in range(0, len(part), batch.block):
        block = slice(start, start + batch.block)
        found = batch.products(part.means[block])
        total, best = batch.sums(found.shape[2])
        _sum_and_max(found, total, best)
        bound = out[:, block]
        torch.add(torch.mul(best, batch.slots, out=best), total, out=total)  # K (max + mean)
        torch.mul(total, part.mean_scale[block], out=bound)
        bound.mul_(batch.scale / (2 * batch.slots)).add_(part.spread[block]).add_(constant)


def element_bounds(batch: Batch, part: Codes, out: Float[Tensor, "queries items"]) -> None:
    """From the elements: Chamfer of the codes, what it can miss, and log(K) / alpha."""
    slots = len(part.elements)
    smooth = (math.log(batch.slots) + math.log(slots)) / (2 * batch.alpha)
    constant = batch.error * longest(batch.dim) + (smooth + slack(batch.dim, batch.alpha))
    for start in range(0, len(part), batch.block):
        block = slice(start, start + batch.block)
        items = len(part.scale[block])
        best, (to_query, to_item) = batch.best(items), batch.sums(items)
        for slot, codes in enumerate(part.elements[:, block]):
            found = batch.products(codes)
            best.copy_(found) if slot == 0 else torch.maximum(best, found, out=best)
            _sum_and_max(found, None, to_query)
            to_item.copy_(to_query) if slot == 0 else to_item.add_(to_query)
        _sum_and_max(best, to_query, None)
        bound = out[:, block]
        torch.mul(to_query, 1 / (2 * batch.slots), out=bound)
        bound.add_(to_item, alpha=1 / (2 * slots))
        bound.mul_(part.scale[block]).mul_(batch.scale)
        bound.addcmul_(part.error[block].expand_as(bound), batch.norm).add_(constant)


def estimates(
    query: Query, part: Codes, chosen: Int64[Tensor, " chosen"], alpha: float, fine: bool
) -> tuple[Float[Tensor, " chosen"], Float[Tensor, " chosen"]]:
    """Scores of chosen items from their codes, and how far the exact ones can be from them.

    Args:
        query: the set they are compared with.
        part: their codes.
        chosen: which of them.
        alpha: of smooth-Chamfer.
        fine: take the query itself instead of its codes: slower and closer.
    """
    codes = part.elements.index_select(1, chosen)
    slots, items, dim = codes.shape
    flat = codes.view(slots * items, dim)
    if fine:
        found = query.exact @ flat.float().T
    else:
        found = products(query.codes, flat).float() * query.scale
    cosines = found.view(1, -1, slots, items) * part.scale[chosen]
    score = reduce_smooth_chamfer(cosines, alpha)[0]
    margin = part.error[chosen] * query.norm + slack(dim, alpha)
    return score, margin if fine else margin + query.error * longest(dim)


def _sum_and_max(found: Tensor, total: Tensor | None, best: Tensor | None) -> None:
    """Over the query's elements, in place: faster than torch's reductions of a short dimension."""
    for index in range(found.shape[1]):
        one = found[:, index]
        if total is not None:
            total.copy_(one) if index == 0 else total.add_(one)
        if best is not None:
            best.copy_(one) if index == 0 else torch.maximum(best, one, out=best)
