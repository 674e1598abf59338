"""The exact scores of a few items.

The last word is in float64: of items that float32 cannot tell apart, the better one wins.
"""

from __future__ import annotations

import numpy as np
import torch
from jaxtyping import Bool, Float, Int64
from torch import Tensor

from diverset.index.codes import slack
from diverset.similarity import reduce_smooth_chamfer


def scores_of(
    queries: Float[Tensor, "queries query_slots dim"],
    sets: Float[Tensor, "queries candidates slots dim"],
    alpha: float,
) -> Float[Tensor, "queries candidates"]:
    """Smooth-Chamfer of each query with its own candidates, in float32: right to `slack`."""
    count, candidates, slots, dim = sets.shape
    cosines = queries @ sets.view(count, candidates * slots, dim).transpose(1, 2)
    by_slot = cosines.view(count, -1, candidates, slots).transpose(2, 3)
    return reduce_smooth_chamfer(by_slot.contiguous(), alpha)


def best(
    queries: Float[np.ndarray, "queries query_slots dim"],
    sets: Float[Tensor, "queries candidates slots dim"],
    valid: Bool[Tensor, "queries candidates"],
    k: int,
    alpha: float,
) -> tuple[Int64[np.ndarray, "queries few"], Float[np.ndarray, "queries few query_slots slots"]]:
    """Of each query's candidates the k best and whatever float32 cannot tell from them.

    Returns their numbers among the candidates, and their cosines in float64.
    """
    count, candidates, slots, dim = sets.shape
    asked = torch.from_numpy(queries)
    scores = scores_of(asked, sets, alpha).masked_fill_(~valid, -torch.inf)
    least = scores.topk(min(k, candidates)).values[:, -1:] - 2 * slack(dim, alpha)
    few = int((scores >= least).sum(dim=1).max())
    chosen = scores.topk(few).indices
    flat = chosen + candidates * torch.arange(count)[:, None]
    kept = sets.view(count * candidates, slots * dim).index_select(0, flat.flatten())
    exact = asked.double() @ kept.view(count, few * slots, dim).double().transpose(1, 2)
    exact = exact.view(count, -1, few, slots).transpose(1, 2)
    return chosen.numpy(), exact.numpy()
