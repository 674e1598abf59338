"""How alike two embedding sets are: smooth-Chamfer (Eq. 6-7), Chamfer, MIL, match probability.

Every similarity takes image sets (B, K, D) and text sets (C, K', D) with l2-normalised elements
and returns (B, C) scores, larger is better, differentiable, in float32 or better. All of them
first form the cosines of all pairs of elements with one matrix product and then reduce them;
`similarity_matrix` does the same block by block for whole collections, `similarity_blocks` does
it without keeping the blocks.

This module does not know where sets come from, nor what the scores are used for.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from numbers import Real
from typing import Any, NamedTuple

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from diverset.errors import InputError, OptionError, ShapeError, check_choice

Similarity = Callable[..., Float[Tensor, "images texts"]]
Cosines = Float[Tensor, "images slots text_slots texts"]

# exp(alpha * c) with |c| <= 1 stays a normal float32 up to here, so that neither direction has to
# look for its maximum first. Beyond it, logsumexp does.
LARGEST_PLAIN_ALPHA = 64.0
LARGEST_LOGARITHM = 80.0  # exp of it, and of its negative, is a normal float32
MAX_MEMORY = 512 * 2**20  # bytes above the inputs, unless a caller says otherwise
UNIT_TOLERANCE = 1e-2  # room for sets that were stored in bfloat16, which keeps 8 bits


def smooth_chamfer(
    images: Float[Tensor, "images slots dim"],
    texts: Float[Tensor, "texts text_slots dim"],
    alpha: float = 16.0,
) -> Float[Tensor, "images texts"]:
    """Smooth-Chamfer similarity (Eq. 6-7): every element is softly assigned to the other set.

    It lies between `chamfer` and `chamfer` + log(K) / alpha, and its gradient with respect to the
    cosines (Eq. 8) is non-negative and sums to one.

    >>> x = torch.eye(4).reshape(2, 2, 4)  # two sets of two orthogonal elements
    >>> smooth_chamfer(x, x, alpha=16.0).round(decimals=4)
    tensor([[1.0000, 0.0433],
            [0.0433, 1.0000]])
    """
    check_sets(images, texts)
    return reduce_smooth_chamfer(_cosines(images, texts), alpha=alpha)


def chamfer(
    images: Float[Tensor, "images slots dim"], texts: Float[Tensor, "texts text_slots dim"]
) -> Float[Tensor, "images texts"]:
    """Chamfer similarity: every element counts with its nearest neighbour in the other set."""
    check_sets(images, texts)
    return _reduce_chamfer(_cosines(images, texts))


def mil(
    images: Float[Tensor, "images slots dim"], texts: Float[Tensor, "texts text_slots dim"]
) -> Float[Tensor, "images texts"]:
    """MIL similarity (PVSE): the cosine of the closest pair of elements."""
    check_sets(images, texts)
    return _reduce_mil(_cosines(images, texts))


class MatchProbability(nn.Module):
    """Match probability (PCME): the mean of sigmoid(a * cosine + b) over all pairs of elements.

    Both numbers are parameters and are trained with the model. The paper writes a sum over pairs;
    the mean differs from it by a constant factor and keeps scores within 0..1.
    """

    def __init__(self, a: float = 1.0, b: float = 0.0) -> None:
        super().__init__()
        self.a = nn.Parameter(torch.tensor(float(a)))
        self.b = nn.Parameter(torch.tensor(float(b)))

    def forward(
        self,
        images: Float[Tensor, "images slots dim"],
        texts: Float[Tensor, "texts text_slots dim"],
    ) -> Float[Tensor, "images texts"]:
        check_sets(images, texts)
        cosines = _cosines(images, texts)
        return torch.sigmoid(self.a * cosines + self.b).mean(dim=(1, 2))


def reduce_smooth_chamfer(cosines: Cosines, alpha: float = 16.0) -> Float[Tensor, "images texts"]:
    """Eq. 6 from the cosines of all pairs of elements."""
    if not isinstance(alpha, Real) or not 0 < alpha < math.inf:
        raise OptionError(f"alpha is {alpha!r}; smooth-Chamfer needs a number above 0 (paper: 16)")
    slots, text_slots = cosines.shape[1:3]
    if alpha > LARGEST_PLAIN_ALPHA:
        scaled = cosines * alpha
        to_texts, to_images = scaled.logsumexp(dim=2), scaled.logsumexp(dim=1)
    else:
        # One exponential serves both directions.
        reuse = not (torch.is_grad_enabled() and cosines.requires_grad)
        weights = cosines.mul_(alpha).exp_() if reuse else (cosines * alpha).exp()
        sums, text_sums = weights.sum(dim=2), weights.sum(dim=1)
        if not torch.is_grad_enabled() and _fits_one_logarithm(cosines, alpha):
            to_texts, to_images = sums.prod(dim=1).log_(), text_sums.prod(dim=1).log_()
            return to_texts.div_(slots).add_(to_images.div_(text_slots)).div_(2 * alpha)
        to_texts, to_images = sums.log(), text_sums.log()
    return (to_texts.mean(dim=1) + to_images.mean(dim=1)) / (2 * alpha)


def _fits_one_logarithm(cosines: Cosines, alpha: float) -> bool:
    """Whether the product of a set's sums stays a float32: then it needs one log instead of K."""
    most = max(cosines.shape[1:3])
    return most * (alpha + math.log(most)) < LARGEST_LOGARITHM


def _reduce_chamfer(cosines: Cosines) -> Float[Tensor, "images texts"]:
    """Chamfer from the cosines of all pairs of elements."""
    return (cosines.amax(dim=2).mean(dim=1) + cosines.amax(dim=1).mean(dim=1)) / 2


def _reduce_mil(cosines: Cosines) -> Float[Tensor, "images texts"]:
    """MIL from the cosines of all pairs of elements."""
    return cosines.amax(dim=(1, 2))


SIMILARITIES: dict[str, Similarity] = {
    "smooth_chamfer": smooth_chamfer,
    "chamfer": chamfer,
    "mil": mil,
}
_REDUCTIONS: dict[str, Callable[..., Tensor]] = {
    "smooth_chamfer": reduce_smooth_chamfer,
    "chamfer": _reduce_chamfer,
    "mil": _reduce_mil,
}


@torch.no_grad()
def similarity_matrix(
    images: Float[Tensor, "images slots dim"],
    texts: Float[Tensor, "texts text_slots dim"],
    similarity: str | Similarity = "smooth_chamfer",
    *,
    max_memory: int = MAX_MEMORY,
    device: torch.device | str | None = None,
    **options: Any,
) -> Float[Tensor, "images texts"]:
    """Score every image against every text, block by block.

    Args:
        images: image sets.
        texts: text sets.
        similarity: a name in `SIMILARITIES`, or any function of two batches of sets, such as a
            trained `MatchProbability`.
        max_memory: bytes that may be used above the inputs and the result.
        device: where to compute; the result stays on the device of `images`.
        options: passed on to the similarity, e.g. `alpha=16.0`.
    """
    blocks = similarity_blocks(
        images, texts, similarity, max_memory=max_memory, device=device, **options
    )
    dtype = torch.promote_types(torch.promote_types(images.dtype, texts.dtype), torch.float32)
    scores = torch.empty(len(images), len(texts), dtype=dtype, device=images.device)
    for rows, columns, block in blocks:
        scores[rows, columns] = block
    return scores


def similarity_blocks(
    images: Float[Tensor, "images slots dim"],
    texts: Float[Tensor, "texts text_slots dim"],
    similarity: str | Similarity = "smooth_chamfer",
    *,
    block: tuple[int, int] | None = None,
    order: Int[Tensor, " texts"] | None = None,
    wanted: Callable[[slice, slice], bool] | None = None,
    max_memory: int = MAX_MEMORY,
    device: torch.device | str | None = None,
    **options: Any,
) -> Iterator[tuple[slice, slice, Float[Tensor, "rows columns"]]]:
    """Yield (rows, columns, scores) for whole collections that nobody wants to hold as a matrix.

    A block is computed from the same numbers in the same way whenever it is asked for, so that
    scores of two passes over the same blocks can be compared bit by bit.

    Args:
        images: image sets.
        texts: text sets.
        similarity: a name in `SIMILARITIES`, or any function of two batches of sets.
        block: how many images and texts at once; `block_shape` chooses by default.
        order: indices of the texts to score, in this order; columns then count along it.
        wanted: tells which blocks to score; all by default.
        max_memory: bytes that may be used above the inputs.
        device: where to compute and where the scores are.
        options: passed on to the similarity.
    """
    if isinstance(similarity, str):
        check_sets(images, texts)  # a function checks its own inputs
    device = torch.device(device) if device is not None else images.device
    rows, columns = block or block_shape(images, texts, max_memory, device)
    prepare, score = _block_scorer(similarity, options)

    count = len(texts) if order is None else len(order)

    @torch.no_grad()
    def walk() -> Iterator[tuple[slice, slice, Tensor]]:
        for across in _slices(count, columns):
            downs = [
                down
                for down in _slices(len(images), rows)
                if wanted is None or wanted(down, across)
            ]
            if not downs:
                continue
            chosen = texts[across] if order is None else texts[order[across]]
            prepared = prepare(chosen.to(device))
            for down in downs:
                yield down, across, score(images[down].to(device), prepared)

    return walk()


def block_shape(
    images: Float[Tensor, "images slots dim"],
    texts: Float[Tensor, "texts text_slots dim"],
    max_memory: int = MAX_MEMORY,
    device: torch.device | str = "cpu",
) -> tuple[int, int]:
    """How many images and texts to score at once, within the memory bound.

    On a CPU a block should be small enough to be still in the cache when it is reduced, and large
    enough that threads seldom wait for each other, which costs most where cores are shared.
    """
    if max_memory < 2**20:
        raise OptionError(f"max_memory is {max_memory} bytes; give at least {2**20} (1 MiB)")
    budget = min(max_memory, 96 * 2**20) if torch.device(device).type == "cpu" else max_memory
    # A block's cosines, what a similarity makes of them and the reductions; the reordered texts.
    number = max(4, images.element_size(), texts.element_size())
    pair_bytes = 4 * number * images.shape[1] * texts.shape[1]
    text_bytes = 2 * number * texts.shape[1] * texts.shape[2]
    rows = min(len(images), 1024) or 1
    columns = budget // (pair_bytes * rows + text_bytes)
    while columns < 64 and rows > 1:
        rows = (rows + 1) // 2
        columns = budget // (pair_bytes * rows + text_bytes)
    # Whole vector registers: a ragged inner dimension slows the product and the reductions.
    return rows, max(1, columns // 64 * 64 or columns)


def check_sets(images: Tensor, texts: Tensor) -> None:
    """Raise unless both are batches of l2-normalised sets of the same width."""
    for name, sets in (("images", images), ("texts", texts)):
        if not isinstance(sets, Tensor):
            raise InputError(f"{name} is a {type(sets).__name__}; give a torch tensor")
        if sets.ndim != 3 or 0 in sets.shape[1:]:
            raise ShapeError(
                f"{name} has shape {tuple(sets.shape)}; a batch of sets is (items, elements, dim)"
            )
        if not sets.is_floating_point():
            raise InputError(f"{name} holds {sets.dtype}; embedding sets are floating point")
    if images.shape[2] != texts.shape[2]:
        raise ShapeError(
            f"images are {images.shape[2]} wide and texts {texts.shape[2]}; "
            "compare sets of one model, with the same dim"
        )
    _check_unit_length("images", images)
    _check_unit_length("texts", texts)


def _check_unit_length(name: str, sets: Tensor) -> None:
    precision = torch.promote_types(sets.dtype, torch.float32)
    norms = torch.linalg.vector_norm(sets.detach(), dim=-1, dtype=precision)
    good = (norms - 1).abs() <= UNIT_TOLERANCE  # False for NaN as well
    if good.all():
        return
    item, element = (~good).nonzero()[0].tolist()
    raise InputError(
        f"element {element} of {name}[{item}] has norm {norms[item, element].item():.4g}, not 1; "
        "pass sets through torch.nn.functional.normalize, and look for NaN where the norm is nan"
    )


def _slices(count: int, size: int) -> Iterator[slice]:
    return (slice(start, min(start + size, count)) for start in range(0, count, size))


class _BySlot(NamedTuple):
    """Texts reordered for the product: first elements of all texts, then second ones, ..."""

    elements: Float[Tensor, "text_slots_texts dim"]
    slots: int


def _by_slot(texts: Tensor) -> _BySlot:
    return _BySlot(texts.transpose(0, 1).reshape(-1, texts.shape[2]), texts.shape[1])


class _Buffers:
    """Memory that all blocks share: new pages for each would cost more than their arithmetic."""

    def __init__(self) -> None:
        self._flat: dict[torch.dtype, Tensor] = {}

    def take(self, rows: int, columns: int, like: Tensor, dtype: torch.dtype) -> Tensor:
        """A (rows, columns) tensor whose content is anything."""
        flat = self._flat.get(dtype)
        if flat is None or len(flat) < rows * columns or flat.device != like.device:
            flat = torch.empty(rows * columns, dtype=dtype, device=like.device)
            self._flat[dtype] = flat
        return flat[: rows * columns].view(rows, columns)


def _cosines(images: Tensor, texts: Tensor | _BySlot, buffers: _Buffers | None = None) -> Cosines:
    """All pairs of elements by one matrix product, texts innermost so that reductions vectorise."""
    by_slot = texts if isinstance(texts, _BySlot) else _by_slot(texts)
    count, slots, dim = images.shape
    rows, columns = images.reshape(count * slots, dim), by_slot.elements
    common = torch.promote_types(rows.dtype, columns.dtype)
    rows, columns = rows.to(common), columns.to(common)
    wide = torch.promote_types(common, torch.float32)
    if buffers is None:
        product = (rows @ columns.T).to(wide)
    else:
        product = buffers.take(len(rows), len(columns), rows, rows.dtype)
        torch.mm(rows, columns.T, out=product)
        if rows.dtype != wide:
            product = buffers.take(len(rows), len(columns), rows, wide).copy_(product)
    return product.view(count, slots, by_slot.slots, len(columns) // by_slot.slots)


def _block_scorer(
    similarity: str | Similarity, options: dict[str, Any]
) -> tuple[Callable[[Tensor], Any], Callable[[Tensor, Any], Tensor]]:
    """What is done once to a block of texts, and what scores images against the outcome."""
    if not isinstance(similarity, str):
        return lambda texts: texts, lambda images, texts: similarity(images, texts, **options)
    check_choice("similarity", similarity, _REDUCTIONS)
    known = ["alpha"] if similarity == "smooth_chamfer" else []
    for name in options:
        if name not in known:
            has = ", ".join(known) or "none"
            raise OptionError(f"{similarity} has no option {name}; it has: {has}")
    reduction = _REDUCTIONS[similarity]
    buffers = _Buffers()
    return _by_slot, lambda images, texts: reduction(_cosines(images, texts, buffers), **options)
