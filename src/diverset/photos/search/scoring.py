"""Scores of one query against many sets, from the cosines of their elements.

Smooth-Chamfer with weighted query elements (Eq. 6 if all weights are equal), and coverage (every
query element must match).
"""

from __future__ import annotations

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from diverset.errors import OptionError
from diverset.index.explain import contributions, smooth_chamfer_from_cosines
from diverset.similarity import log_sum_exp_smooth_chamfer

Cosines = Float[np.ndarray, "items query_slots slots"]
Scores = Float[np.ndarray, " items"]


def weighted_smooth_chamfer(
    cosines: Cosines, alpha: float, weights: Float[np.ndarray, " query_slots"] | None = None
) -> Scores:
    """Smooth-Chamfer with weights of the query elements.

    >>> cosines = np.array([[[1.0, 0.0], [0.0, 1.0]]])
    >>> weighted_smooth_chamfer(cosines, 16.0).round(3)
    array([1.])
    >>> weighted_smooth_chamfer(cosines, 16.0, np.array([1.0, 0.0])).round(3)
    array([0.772])
    """
    if weights is None:
        return smooth_chamfer_from_cosines(cosines, alpha)
    pairs = torch.from_numpy(np.array(cosines, dtype=np.float64))[..., None]
    tensor = _weights_tensor(weights, cosines.shape[1])
    scores: Scores = log_sum_exp_smooth_chamfer(pairs, alpha, tensor)[:, 0].numpy()
    return scores


def weighted_smooth_chamfer_gradient(
    cosines: Cosines, alpha: float, weights: Float[np.ndarray, " query_slots"] | None = None
) -> Cosines:
    """The gradient of the score with respect to the cosines (Eq. 8 if all weights are equal).

    >>> cosines = np.array([[[1.0, 0.0], [0.0, 1.0]]])
    >>> weighted_smooth_chamfer_gradient(cosines, 16.0, np.array([1.0, 0.0])).round(2)
    array([[[0.75, 0.25],
            [0.  , 0.  ]]])
    """
    if weights is None:
        return contributions(cosines, alpha)
    pairs = torch.from_numpy(np.array(cosines, dtype=np.float64))[..., None].requires_grad_()
    tensor = _weights_tensor(weights, cosines.shape[1])
    with torch.enable_grad():
        score = log_sum_exp_smooth_chamfer(pairs, alpha, tensor).sum()
    [gradient] = torch.autograd.grad(score, pairs)
    return gradient[..., 0].numpy()


def coverage(cosines: Cosines) -> Scores:
    """The best cosine of the query element that matches least.

    >>> coverage(np.array([[[1.0, 0.0], [0.0, 0.2]]]))
    array([0.2])
    """
    scores: Scores = cosines.max(axis=2).min(axis=1)
    return scores


def coverage_gradient(cosines: Cosines) -> Cosines:
    """The gradient of `coverage`: one for the pair of elements that is the score.

    >>> coverage_gradient(np.array([[[1.0, 0.0], [0.0, 0.2]]]))
    array([[[0., 0.],
            [0., 1.]]])
    """
    items = np.arange(len(cosines))
    least = cosines.max(axis=2).argmin(axis=1)
    gradient = np.zeros_like(cosines, dtype=np.float64)
    gradient[items, least, cosines[items, least].argmax(axis=1)] = 1
    return gradient


def _weights_tensor(weights: Float[np.ndarray, " query_slots"], count: int) -> Tensor:
    tensor = torch.from_numpy(np.array(weights, dtype=np.float64))
    valid = tensor.shape == (count,) and bool(tensor.isfinite().all()) and float(tensor.min()) >= 0
    if not valid or not tensor.sum():
        raise OptionError(
            f"weights are {tensor.tolist()}; give {count} numbers of at least 0, not all 0"
        )
    return tensor
