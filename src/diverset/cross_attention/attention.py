"""Attention of the queries of one side to the inputs of the other, for all pairs of items.

Tensors have the axes (contexts, inputs, items, queries): one matrix product gives all cosines, and
everything after it runs along contiguous memory. Attended vectors are rarely needed; cosines to
them follow from the cosines to the inputs and the Gram matrix of the inputs.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import torch
from jaxtyping import Float
from torch import Tensor
from torch.nn import functional as F

from diverset.cross_attention.blocks import Local, Mask, Side
from diverset.cross_attention.linear import linear
from diverset.types import can_inspect

EPSILON = 1e-8
SLOPE = 0.1
LOG2_E = math.log2(math.e)
"""exp(x) = exp2(LOG2_E x), which is four times faster on a CPU."""
MAX_LOGIT = 30.0
"""Squares of exponentials of larger logits could leave the range of float32."""

Pairs = Float[Tensor, "contexts inputs items queries"]
Queries = Float[Tensor, "contexts items queries"]


def all_products(contexts: Local, queries: Local) -> Pairs:
    """Inner products of all inputs of all contexts with all queries of all items.

    At least float32, also under autocast: exponentials of them would overflow float16.
    """
    products = linear(contexts, queries.flatten(0, 1))
    products = products.to(torch.promote_types(products.dtype, torch.float32))
    return products.view(*contexts.shape[:2], *queries.shape[:2])


def unscaled_weights(
    cosines: Pairs, context_mask: Mask, sharpness: float, query_mask: Mask | None = None
) -> Pairs:
    """Leaky ReLU, l2 norm over the queries of an item, exponential.

    A sum over the inputs of one would make it a softmax; cosines to attended vectors do not depend
    on it. Padded queries must have zero cosines, or be masked by `query_mask`.
    """
    relevance = F.leaky_relu(cosines, SLOPE)
    if query_mask is not None:
        relevance = relevance * query_mask
    length: Tensor = torch.linalg.vector_norm(relevance, dim=3, keepdim=True)
    logits = overwrite(relevance, Tensor.mul, sharpness * LOG2_E / (length + EPSILON))
    if has_padding(context_mask):
        logits = logits.masked_fill(~context_mask[:, :, None, None], -torch.inf)
    if sharpness > MAX_LOGIT:  # no logit exceeds the sharpness
        logits = logits - logits.detach().amax(dim=1, keepdim=True)
    return overwrite(logits, Tensor.exp2)


def overwrite(values: Tensor, function: Callable[..., Tensor], *args: Tensor | float) -> Tensor:
    """The function of `values`; without gradients in the same memory, which saves time."""
    if torch.is_grad_enabled():
        return function(values, *args)
    in_place: Callable[..., Tensor] = getattr(values, f"{function.__name__}_")
    return in_place(*args)


def has_padding(mask: Mask) -> bool:
    """Whether some inputs may be padding."""
    return not (can_inspect(mask) and bool(mask.all()))


def gram_matrix(contexts: Local) -> Float[Tensor, "contexts inputs inputs"]:
    """Inner products of the inputs of each context."""
    return contexts @ contexts.transpose(1, 2)


def with_gram_matrix(contexts: Side) -> Side:
    """Contexts prepared for `attended_length`."""
    return contexts._replace(prepared=(gram_matrix(contexts.local),))


def attended_length(weights: Pairs, gram: Float[Tensor, "contexts inputs inputs"]) -> Queries:
    """Lengths of the attended vectors, sum over inputs of weight x input; never 0."""
    flat = weights.flatten(2)
    squares = overwrite((gram @ flat).to(flat.dtype), Tensor.mul, flat).sum(dim=1)
    squares = squares.clamp_min(torch.finfo(squares.dtype).tiny)
    return squares.sqrt().view(len(weights), *weights.shape[2:])


def tanh(values: Tensor) -> Tensor:
    """The hyperbolic tangent; without gradients by a sigmoid, five times faster on a CPU."""
    if torch.is_grad_enabled():
        return values.tanh()
    return (2 * values).sigmoid_().mul_(2).sub_(1)


def normalized(vectors: Tensor) -> Tensor:
    """x / (||x|| + 1e-8), as the published systems normalise."""
    length: Tensor = torch.linalg.vector_norm(vectors, dim=-1, keepdim=True)
    return vectors / (length + EPSILON)


def length(values: Tensor, dim: int) -> Tensor:
    """l2 norm along an axis, which is kept, at least 1e-8."""
    # vector_norm is slow on a CPU along other axes than the last.
    return values.square().sum(dim=dim, keepdim=True).clamp_min(EPSILON**2).sqrt()


def masked_softmax(logits: Tensor, mask: Tensor, dim: int) -> Tensor:
    """Softmax over the real inputs; padding gets 0."""
    if not has_padding(mask):
        return logits.softmax(dim=dim)
    return logits.masked_fill(~mask, -torch.inf).softmax(dim=dim)
