"""Sets quantized to 8 bits, with the quantization errors that make bounds of scores possible.

An item is quantized twice: its mean m' = mean_scale * means, for the first pass over all items, and
its elements x'_j = scale * elements, for the second. Three numbers make upper bounds of scores:

    error    max_j |x_j - x'_j|
    radius   (max_j |d_j| + mean_j |d_j|) / 2,  d_j = x_j - m'
    spread   how far smooth-Chamfer with a query of equal elements can lie above the one with every
             x_j at m', see docs/exact-search.md

A query is quantized with one scale for all its elements.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import torch
from jaxtyping import Float, Int8, Int64
from torch import Tensor

from diverset.index.block_checks import BlockChecks
from diverset.index.int8_matmul import MAX_CODE
from diverset.similarity import UNIT_TOLERANCE

TENSORS = ("rows", "sets", "means", "elements", "mean_scale", "spread", "radius", "scale", "error")

SQUARINGS = 4  # of a matrix, for a bound of its largest eigenvalue


@dataclass(frozen=True)
class Codes:
    """Quantized items, ordered by their row number in the item database.

    `sets` is a copy of the original sets. It is memory-mapped from a segment file, so it only takes
    memory where it is read, and reading a set takes a microsecond. Call `check_sets` or
    `check_elements` before reading `sets` or `elements`; `checks` is None if the codes are not
    from a file.
    """

    rows: Int64[Tensor, " items"]
    sets: Float[Tensor, "items elements dim"]
    means: Int8[Tensor, "items dim"]
    elements: Int8[Tensor, "elements items dim"]
    mean_scale: Float[Tensor, " items"]
    spread: Float[Tensor, " items"]
    radius: Float[Tensor, " items"]
    scale: Float[Tensor, " items"]
    error: Float[Tensor, " items"]
    checks: BlockChecks | None = field(default=None, kw_only=True)

    def __len__(self) -> int:
        return len(self.rows)

    def check_sets(self, positions: Int64[np.ndarray, " positions"]) -> None:
        """Raise `DamagedSegmentError` if the set at one of these positions is damaged."""
        if self.checks is not None:
            self.checks.check_sets(self.rows, self.sets, positions)

    def check_elements(self, positions: Int64[Tensor, " positions"] | None = None) -> None:
        """Raise `DamagedSegmentError` if codes of elements are damaged; default: of any item."""
        if self.checks is not None:
            self.checks.check_elements(self.elements, positions)

    def check_all(self) -> Codes:
        """These codes, after all blocks have been checked."""
        self.check_sets(np.arange(len(self)))
        self.check_elements()
        return self

    def take(self, positions: Int64[Tensor, " chosen"]) -> Codes:
        """The items at these positions, in this order; their blocks must have been checked."""
        tensors = (getattr(self, name).index_select(_item_dim(name), positions) for name in TENSORS)
        return Codes(*tensors)


def concatenate(parts: Sequence[Codes]) -> Codes:
    """Several codes as one, in this order; their blocks must have been checked."""
    tensors = (
        torch.cat([getattr(part, name) for part in parts], dim=_item_dim(name)) for name in TENSORS
    )
    return Codes(*tensors)


def _item_dim(name: str) -> int:
    return 1 if name == "elements" else 0


def max_code_norm(dim: int) -> float:
    """Upper bound of the norm of a dequantized mean or element: 1, its tolerance, its rounding."""
    return 1 + UNIT_TOLERANCE + math.sqrt(dim) / (2 * MAX_CODE)


def rounding_margin(dim: int, alpha: float) -> float:
    """More than float32 arithmetic can lose in any score or bound (docs/exact-search.md)."""
    return (dim + 64 + 64 / alpha) * 2.0**-22


def quantize(
    rows: Int64[np.ndarray, " items"], sets: Float[np.ndarray, "items elements dim"], alpha: float
) -> Codes:
    """Quantize items; `rows` must be ascending."""
    exact = torch.from_numpy(sets).transpose(0, 1).contiguous()  # elements first, like the codes
    mean_scale, means = _to_int8(exact.mean(dim=0), dims=(1,))
    scale, elements = _to_int8(exact, dims=(0, 2))
    center = means.float() * mean_scale[:, None]
    offsets = exact - center
    norms, rounding = _norms(offsets), sets.shape[1] * sets.shape[2] * 2.0**-22
    return Codes(
        rows=torch.from_numpy(rows),
        sets=torch.from_numpy(sets),
        means=means,
        elements=elements,
        mean_scale=mean_scale,
        spread=spread(offsets.transpose(0, 1), alpha).float() * (1 + rounding),
        radius=(norms.amax(dim=0) + norms.mean(dim=0)) / 2 * (1 + rounding),
        scale=scale,
        error=_norms(exact - elements.float() * scale[:, None]).amax(dim=0),
    )


def spread(offsets: Float[Tensor, "items elements dim"], alpha: float) -> Float[Tensor, " items"]:
    """The largest <v, mean_j d_j> + log sum_j exp(alpha <v, d_j - mean d>) / (2 alpha), |v| <= 1.

    An upper bound of it from two: |<v, d_j>| <= |d_j|, and the sum of squares of these products,
    which is at most the largest eigenvalue of the offsets' inner products. With a given sum of
    squares, one large and otherwise equal numbers have the largest sum of exponentials.
    """
    elements = offsets.shape[1]
    center = offsets.mean(dim=1)
    offsets = offsets - center[:, None]
    products = torch.bmm(offsets, offsets.transpose(1, 2)).double()
    trace = products.diagonal(dim1=1, dim2=2).sum(dim=1).clamp(min=1e-30)
    power = products / trace[:, None, None]
    for _ in range(SQUARINGS):
        power = torch.bmm(power, power)
    root = 1 / 2**SQUARINGS  # the Frobenius norm of a power is at least that of its eigenvalue
    eigenvalue = power.norm(dim=(1, 2)) ** root * trace
    far = torch.sqrt(eigenvalue * (elements - 1) / elements)
    others = math.log(max(elements - 1, 1)) - alpha * far / max(elements - 1, 1)
    one_far = torch.logaddexp(alpha * far, others) if elements > 1 else torch.zeros_like(far)
    all_far = torch.logsumexp(alpha * _norms(offsets).double(), dim=1)
    return _norms(center) + torch.minimum(one_far, all_far) / (2 * alpha)


@dataclass(frozen=True)
class QuantizedQueries:
    """Query sets, their codes, and per query the largest error, norm and distance to the mean."""

    exact: Float[np.ndarray, "queries query_elements dim"]
    codes: Int8[np.ndarray, "queries query_elements dim"]
    scale: Float[np.ndarray, " queries"]
    error: Float[np.ndarray, " queries"]
    norm: Float[np.ndarray, " queries"]
    deviation: Float[np.ndarray, " queries"]

    def __len__(self) -> int:
        return len(self.exact)

    def __getitem__(self, part: slice) -> QuantizedQueries:
        return QuantizedQueries(*(array[part] for array in vars(self).values()))

    def margin(self, alpha: float) -> Float[np.ndarray, " queries"]:
        """How far the score of an item's codes can be from that of the item, besides its error."""
        dim = self.exact.shape[2]
        return self.error * max_code_norm(dim) + rounding_margin(dim, alpha)

    def mean_constant(self, alpha: float) -> Float[np.ndarray, " queries"]:
        """What the bound by means adds to (max_i + mean_i <q_i, m'>) / 2, spread and radius."""
        _, elements, dim = self.exact.shape
        above_unit = (self.norm - 1).clip(min=0) * 2 * max_code_norm(dim)
        constant: Float[np.ndarray, " queries"] = above_unit + self.margin(alpha)
        return constant + math.log(elements) / (2 * alpha)

    def element_constant(self, alpha: float, elements: int) -> Float[np.ndarray, " queries"]:
        """What the bound by elements adds to Chamfer of the codes and the item's error."""
        smooth = math.log(self.exact.shape[1]) + math.log(elements)
        return smooth / (2 * alpha) + self.margin(alpha)


def quantize_queries(
    queries: Float[np.ndarray, "queries query_elements dim"],
) -> QuantizedQueries:
    """Quantize query sets, each with one scale for all its elements."""
    largest = np.maximum(np.abs(queries).max(axis=(1, 2), keepdims=True), np.float32(1e-30))
    scales = largest / np.float32(MAX_CODE)
    codes = np.rint(queries / scales).clip(-MAX_CODE, MAX_CODE)
    errors = _max_norms(queries - codes * scales)
    deviations = _max_norms(queries - queries.mean(axis=1, keepdims=True))
    return QuantizedQueries(
        queries, codes.astype(np.int8), scales.ravel(), errors, _max_norms(queries), deviations
    )


def _max_norms(
    sets: Float[np.ndarray, "queries query_elements dim"],
) -> Float[np.ndarray, " queries"]:
    """The largest norm in each set, rounded up as in `_norms`."""
    squares = np.einsum("qsd,qsd->qs", sets, sets).max(axis=1)
    norms: Float[np.ndarray, " queries"] = np.sqrt(squares) * (1 + sets.shape[2] * 2.0**-23)
    return norms


def _to_int8(values: Tensor, dims: tuple[int, ...]) -> tuple[Tensor, Tensor]:
    """Scales over `dims`, and codes within -MAX_CODE..MAX_CODE."""
    scale = values.abs().amax(dim=dims, keepdim=True).clamp(min=1e-30) / MAX_CODE
    codes = (values / scale).round_().clamp_(-MAX_CODE, MAX_CODE).to(torch.int8)
    return scale.flatten(), codes


def _norms(values: Tensor) -> Tensor:
    """Norms along the last dimension, rounded up by more than float32 can have lost."""
    norms: Tensor = torch.linalg.vector_norm(values, dim=-1)
    return norms * (1 + values.shape[-1] * 2.0**-23)
