"""Smooth-Chamfer similarity (Eq. 6-7) and its gradient (Eq. 8), the paper's Sec. 3.3."""

from __future__ import annotations

import math
from functools import reduce
from numbers import Real
from operator import add, mul

import torch
from jaxtyping import Float
from torch import Tensor

from diverset.errors import OptionError
from diverset.similarity.checks import check_sets
from diverset.similarity.cosines import Cosines, ImageSets, Scores, TextSets, pairwise_cosines

# Up to this alpha, exp(alpha * c) with |c| <= 1 is a normal float32, so that log-sum-exp need not
# subtract the maximum first.
MAX_PLAIN_ALPHA = 64.0
MAX_LOGARITHM = 80.0  # exp(80) and exp(-80) are normal float32 numbers


def smooth_chamfer(images: ImageSets, texts: TextSets, alpha: float = 16.0) -> Scores:
    """Smooth-Chamfer similarity (Eq. 6): every element is softly assigned to the other set.

    It lies between `chamfer` and `chamfer` + log(K) / alpha for sets of K elements. It is computed
    by `fast_smooth_chamfer`.

    >>> x = torch.eye(4).reshape(2, 2, 4)  # two sets of two orthogonal elements
    >>> smooth_chamfer(x, x, alpha=16.0).round(decimals=4)
    tensor([[1.0000, 0.0433],
            [0.0433, 1.0000]])
    """
    check_sets(images, texts)
    return fast_smooth_chamfer(pairwise_cosines(images, texts), alpha)


def fast_smooth_chamfer(cosines: Cosines, alpha: float = 16.0) -> Scores:
    """Equal to `log_sum_exp_smooth_chamfer`. Overwrites `cosines` unless they require a gradient.

    One exponential serves both sums of Eq. 6. Without a gradient, the sums of a set are multiplied
    first, so that it takes one logarithm instead of K.
    """
    check_alpha(alpha)
    slots, text_slots = cosines.shape[1:3]
    if alpha > MAX_PLAIN_ALPHA:
        return log_sum_exp_smooth_chamfer(cosines, alpha)
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


def log_sum_exp_smooth_chamfer(
    cosines: Cosines, alpha: float = 16.0, weights: Float[Tensor, " slots"] | None = None
) -> Scores:
    """Smooth-Chamfer as Eq. 7 writes it, from the cosines c(x, y) of x in S1 and y in S2.

          1 / (2 alpha |S1|) sum_x LSE_y(alpha c(x, y))
        + 1 / (2 alpha |S2|) sum_y LSE_x(alpha c(x, y))

    `weights` (not in the paper) say how much each element x counts: they replace 1 / |S1| in the
    first term, and x occurs in the LSE of the second term in proportion to its weight. They are
    scaled to sum to one; equal weights give Eq. 7.
    """
    check_alpha(alpha)
    scaled = alpha * cosines
    over_y = scaled.logsumexp(dim=2)  # (images, slots, texts)
    if weights is None:
        first, second = over_y.mean(dim=1), scaled.logsumexp(dim=1).mean(dim=1)
    else:
        shares = (weights / weights.sum())[:, None]
        first = (shares * over_y).sum(dim=1)
        counts = (len(shares) * shares)[:, None]  # of each x in the sum over x; 1 if all are equal
        second = (scaled + counts.log()).logsumexp(dim=1).mean(dim=1)
    return (first + second) / (2 * alpha)


def smooth_chamfer_gradient(cosines: Cosines, alpha: float = 16.0) -> Cosines:
    """The gradient of smooth-Chamfer with respect to the cosines (Eq. 8).

        1 / (2 |S1|) softmax_y(alpha c(x, y)) + 1 / (2 |S2|) softmax_x(alpha c(x, y))

    It is non-negative and sums to one: how much of the score's change is due to each pair. Summed
    over one set it is at least 1 / (2 K) for every element of the other, also without a match.

    >>> smooth_chamfer_gradient(torch.eye(2)[None, :, :, None])[0, :, :, 0].round(decimals=3)
    tensor([[0.5000, 0.0000],
            [0.0000, 0.5000]])
    """
    check_alpha(alpha)
    slots, text_slots = cosines.shape[1:3]
    scaled = alpha * cosines
    return scaled.softmax(dim=2) / (2 * slots) + scaled.softmax(dim=1) / (2 * text_slots)


def check_alpha(alpha: float) -> None:
    """Raise unless alpha is a finite number above 0."""
    if not isinstance(alpha, Real) or not 0 < alpha < math.inf:
        raise OptionError(f"alpha is {alpha!r}; smooth-Chamfer needs a number above 0 (paper: 16)")


def fits_one_logarithm(elements: int, alpha: float) -> bool:
    """Whether exponentials and the product of their sums over a set are normal float32 numbers."""
    return alpha <= MAX_PLAIN_ALPHA and elements * (alpha + math.log(elements)) < MAX_LOGARITHM
