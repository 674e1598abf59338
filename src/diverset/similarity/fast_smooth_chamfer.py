"""Smooth-Chamfer (Eq. 6) from cosines, at little more than the cost of one exponential."""

from __future__ import annotations

import math
from functools import reduce
from numbers import Real
from operator import add, mul

import torch
from jaxtyping import Float
from torch import Tensor

from diverset.errors import OptionError
from diverset.similarity.cosines import Cosines

# Up to this alpha, exp(alpha * c) with |c| <= 1 is a normal float32, so that log-sum-exp need not
# subtract the maximum first.
MAX_PLAIN_ALPHA = 64.0
MAX_LOGARITHM = 80.0  # exp(80) and exp(-80) are normal float32 numbers


def fast_smooth_chamfer(cosines: Cosines, alpha: float = 16.0) -> Float[Tensor, "images texts"]:
    """Equal to `smooth_chamfer_of_cosines`. Overwrites `cosines` unless they require a gradient.

    One exponential serves both sums of Eq. 6. Without a gradient, the sums of a set are multiplied
    first, so that it takes one logarithm instead of K.
    """
    check_alpha(alpha)
    slots, text_slots = cosines.shape[1:3]
    if alpha > MAX_PLAIN_ALPHA:
        scaled = cosines * alpha
        over_y, over_x = scaled.logsumexp(dim=2), scaled.logsumexp(dim=1)
        return (over_y.mean(dim=1) + over_x.mean(dim=1)) / (2 * alpha)
    if torch.is_grad_enabled() and cosines.requires_grad:
        exponentials = (cosines * alpha).exp()
        sum_y, sum_x = exponentials.sum(dim=2), exponentials.sum(dim=1)
        return (sum_y.log().mean(dim=1) + sum_x.log().mean(dim=1)) / (2 * alpha)
    exponentials = cosines.mul_(alpha).exp_()
    # Sums of whole slices: several times faster than torch's reduction of a few numbers.
    sum_y, sum_x = reduce(add, exponentials.unbind(2)), reduce(add, exponentials.unbind(1))
    if fits_one_logarithm(max(slots, text_slots), alpha):
        over_y, over_x = reduce(mul, sum_y.unbind(1)).log(), reduce(mul, sum_x.unbind(1)).log()
    else:
        over_y, over_x = sum_y.log().sum(dim=1), sum_x.log().sum(dim=1)
    return over_y.div_(slots).add_(over_x.div_(text_slots)).div_(2 * alpha)


def check_alpha(alpha: float) -> None:
    """Raise unless alpha is a finite number above 0."""
    if not isinstance(alpha, Real) or not 0 < alpha < math.inf:
        raise OptionError(f"alpha is {alpha!r}; smooth-Chamfer needs a number above 0 (paper: 16)")


def fits_one_logarithm(elements: int, alpha: float) -> bool:
    """Whether exponentials and the product of their sums over a set are normal float32 numbers."""
    return alpha <= MAX_PLAIN_ALPHA and elements * (alpha + math.log(elements)) < MAX_LOGARITHM
