"""Smooth-Chamfer (Eq. 6) from cosines, at little more than the cost of one exponential."""

from __future__ import annotations

import math
from numbers import Real

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
    with_gradient = torch.is_grad_enabled() and cosines.requires_grad
    exponentials = (cosines * alpha).exp() if with_gradient else cosines.mul_(alpha).exp_()
    sum_y, sum_x = exponentials.sum(dim=2), exponentials.sum(dim=1)
    if not with_gradient and _fits_one_logarithm(max(slots, text_slots), alpha):
        over_y, over_x = sum_y.prod(dim=1).log_(), sum_x.prod(dim=1).log_()
        return over_y.div_(slots).add_(over_x.div_(text_slots)).div_(2 * alpha)
    return (sum_y.log().mean(dim=1) + sum_x.log().mean(dim=1)) / (2 * alpha)


def check_alpha(alpha: float) -> None:
    """Raise unless alpha is a finite number above 0."""
    if not isinstance(alpha, Real) or not 0 < alpha < math.inf:
        raise OptionError(f"alpha is {alpha!r}; smooth-Chamfer needs a number above 0 (paper: 16)")


def _fits_one_logarithm(elements: int, alpha: float) -> bool:
    """Whether the product of the sums of a set is a normal float32."""
    return elements * (alpha + math.log(elements)) < MAX_LOGARITHM
