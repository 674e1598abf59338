"""Smooth-Chamfer similarity (Eq. 6-7) and its gradient (Eq. 8), the paper's Sec. 3.3."""

from __future__ import annotations

from jaxtyping import Float
from torch import Tensor

from diverset.similarity.checks import check_sets
from diverset.similarity.cosines import Cosines, pairwise_cosines
from diverset.similarity.fast_smooth_chamfer import check_alpha, fast_smooth_chamfer


def smooth_chamfer(
    images: Float[Tensor, "images slots dim"],
    texts: Float[Tensor, "texts text_slots dim"],
    alpha: float = 16.0,
) -> Float[Tensor, "images texts"]:
    """Smooth-Chamfer similarity (Eq. 6): every element is softly assigned to the other set.

    It lies between `chamfer` and `chamfer` + log(K) / alpha for sets of K elements. It is computed
    by `fast_smooth_chamfer`, which equals `smooth_chamfer_of_cosines`.

    >>> import torch
    >>> x = torch.eye(4).reshape(2, 2, 4)  # two sets of two orthogonal elements
    >>> smooth_chamfer(x, x, alpha=16.0).round(decimals=4)
    tensor([[1.0000, 0.0433],
            [0.0433, 1.0000]])
    """
    check_sets(images, texts)
    return fast_smooth_chamfer(pairwise_cosines(images, texts), alpha)


def smooth_chamfer_of_cosines(
    cosines: Cosines, alpha: float = 16.0, weights: Float[Tensor, " slots"] | None = None
) -> Float[Tensor, "images texts"]:
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

    >>> import torch
    >>> smooth_chamfer_gradient(torch.eye(2)[None, :, :, None])[0, :, :, 0].round(decimals=3)
    tensor([[0.5000, 0.0000],
            [0.0000, 0.5000]])
    """
    check_alpha(alpha)
    slots, text_slots = cosines.shape[1:3]
    scaled = alpha * cosines
    return scaled.softmax(dim=2) / (2 * slots) + scaled.softmax(dim=1) / (2 * text_slots)
