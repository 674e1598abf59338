"""Sets as 8-bit codes that know how wrong they are, beside the sets themselves.

An item is coded twice: its mean m' = mean_scale * means, for the first look at it, and its
elements x'_j = scale * elements, for the second. With both comes what makes a bound of a product
with them, in the same numbers that are stored:

    error    max_j |x_j - x'_j|
    spread   how far smooth-Chamfer can lie above the one with every x_j at m' (docs/index.md):
             ((1/alpha) log sum_j exp(alpha rho_j) + mean_j rho_j) / 2,  rho_j = |x_j - m'|

A query is coded in the same way, with one scale for its elements. It does not know where codes are
kept, nor how they are searched.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, fields

import numpy as np
import torch
from jaxtyping import Float, Int8, Int64
from torch import Tensor

from diverset.index.kernel import LARGEST
from diverset.similarity import UNIT_TOLERANCE


@dataclass(frozen=True)
class Codes:
    """Items as codes, in the order of their row numbers in the truth.

    The sets are copied from the truth: mapped from a file, they take memory only where they are
    read, and reading one takes a microsecond.
    """

    rows: Int64[Tensor, " items"]
    sets: Float[Tensor, "items slots dim"]
    means: Int8[Tensor, "items dim"]
    elements: Int8[Tensor, "slots items dim"]
    mean_scale: Float[Tensor, " items"]
    spread: Float[Tensor, " items"]
    scale: Float[Tensor, " items"]
    error: Float[Tensor, " items"]

    def __len__(self) -> int:
        return len(self.rows)

    def take(self, chosen: Int64[Tensor, " chosen"]) -> Codes:
        """Some of the items, in this order."""
        found = {field.name: getattr(self, field.name) for field in fields(self)}
        return Codes(
            **{
                name: value.index_select(1 if name == "elements" else 0, chosen)
                for name, value in found.items()
            }
        )


def join(parts: Sequence[Codes]) -> Codes:
    """Several codes as one, in this order."""
    return Codes(
        **{
            field.name: torch.cat(
                [getattr(part, field.name) for part in parts],
                dim=1 if field.name == "elements" else 0,
            )
            for field in fields(Codes)
        }
    )


@dataclass(frozen=True)
class Query:
    """One query set: itself, its codes, and how long and how wrong they are."""

    exact: Float[Tensor, "query_slots dim"]
    codes: Int8[Tensor, "query_slots dim"]
    scale: float
    error: float
    norm: float


def longest(dim: int) -> float:
    """No coded mean or element is longer than this: unit length, its tolerance, its rounding."""
    return 1 + UNIT_TOLERANCE + math.sqrt(dim) / (2 * LARGEST)


def slack(dim: int, alpha: float) -> float:
    """More than float32 arithmetic can lose in any score or bound (docs/index.md)."""
    return (dim + 64 + 64 / alpha) * 2.0**-22


def encode(
    rows: Int64[np.ndarray, " items"], sets: Float[np.ndarray, "items slots dim"], alpha: float
) -> Codes:
    """Code items; `rows` must ascend."""
    exact = torch.from_numpy(sets).transpose(0, 1).contiguous()  # slots first, like the codes
    mean_scale, means = _quantise(exact.mean(dim=0), dims=(1,))
    scale, elements = _quantise(exact, dims=(0, 2))
    center = means.float() * mean_scale[:, None]
    radius = _norms(exact - center)
    spread = (torch.logsumexp(alpha * radius, dim=0) / alpha + radius.mean(dim=0)) / 2
    return Codes(
        rows=torch.from_numpy(rows),
        sets=torch.from_numpy(sets),
        means=means,
        elements=elements,
        mean_scale=mean_scale,
        spread=spread,
        scale=scale,
        error=_norms(exact - elements.float() * scale[:, None]).amax(dim=0),
    )


def encode_query(query: Float[np.ndarray, "query_slots dim"]) -> Query:
    """Code one query set."""
    return encode_queries(query[None])[0]


def encode_queries(queries: Float[np.ndarray, "queries query_slots dim"]) -> list[Query]:
    """Code query sets, in numpy: it starts sooner than torch where there is little to do."""
    largest = np.maximum(np.abs(queries).max(axis=(1, 2), keepdims=True), np.float32(1e-30))
    scales = largest / np.float32(LARGEST)
    codes = np.rint(queries / scales).clip(-LARGEST, LARGEST)
    wrong = queries - codes * scales
    errors, norms = (_longest_element(sets).tolist() for sets in (wrong, queries))
    tensors = zip(torch.from_numpy(queries), torch.from_numpy(codes.astype(np.int8)), strict=True)
    numbers = zip(scales.ravel().tolist(), errors, norms, strict=True)
    return [Query(*both, *three) for both, three in zip(tensors, numbers, strict=True)]


def _longest_element(
    sets: Float[np.ndarray, "queries query_slots dim"],
) -> Float[np.ndarray, " queries"]:
    """As `_norms` has it: rounded up by more than float32 can have lost."""
    squares = np.einsum("qsd,qsd->qs", sets, sets).max(axis=1)
    longest: Float[np.ndarray, " queries"] = np.sqrt(squares) * (1 + sets.shape[2] * 2.0**-23)
    return longest


def _quantise(values: Tensor, dims: tuple[int, ...]) -> tuple[Tensor, Tensor]:
    """Scales over `dims`, and codes within -LARGEST..LARGEST."""
    largest = values.abs().amax(dim=dims, keepdim=True).clamp(min=1e-30)
    scale = largest / LARGEST
    codes = (values / scale).round_().clamp_(-LARGEST, LARGEST).to(torch.int8)
    return scale.flatten(), codes


def _norms(values: Tensor) -> Tensor:
    """Lengths along the last dimension, rounded up by more than float32 can have lost."""
    norms: Tensor = torch.linalg.vector_norm(values, dim=-1)
    return norms * (1 + values.shape[-1] * 2.0**-23)
