"""The few things that travel between the folders: inputs, features, embedding sets.

Masks are True where an input is real and False where it is padding, everywhere.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from diverset.errors import InputError, ShapeError


@dataclass(frozen=True)
class Padded:
    """A batch of sequences of different lengths, padded on the right to the longest one.

    `values` is (batch, inputs, ...): region vectors, word ids, token states. Build it with
    `Padded.of` from a list of sequences, or with `Padded.from_lengths` from a padded tensor.
    """

    values: Tensor
    mask: Bool[Tensor, "batch inputs"]

    def __post_init__(self) -> None:
        if self.mask.dtype != torch.bool:
            raise InputError(
                f"the mask holds {self.mask.dtype}; give booleans, True for real inputs"
            )
        if self.values.shape[:2] != self.mask.shape:
            raise ShapeError(
                f"values {tuple(self.values.shape)} and mask {tuple(self.mask.shape)} disagree; "
                "the mask is (batch, inputs) and True where an input is real"
            )
        if torch.compiler.is_compiling():
            return  # a trace has shapes but no values to look at
        empty = (~self.mask.any(dim=1)).nonzero()
        if len(empty):
            raise InputError(
                f"sample {int(empty[0])} of the batch has no inputs at all; "
                "leave empty captions and images without regions out before encoding"
            )

    def to(self, device: torch.device | str) -> Padded:
        return Padded(self.values.to(device), self.mask.to(device))

    def __len__(self) -> int:
        return len(self.values)

    @staticmethod
    def of(sequences: Sequence[Tensor]) -> Padded:
        """Pad a list of (length, ...) tensors with zeros.

        >>> Padded.of([torch.tensor([4, 5, 6]), torch.tensor([7])]).values.tolist()
        [[4, 5, 6], [7, 0, 0]]
        """
        if not sequences:
            raise InputError("an empty batch cannot be encoded; give at least one sample")
        lengths = torch.tensor([len(sequence) for sequence in sequences])
        values = torch.nn.utils.rnn.pad_sequence(list(sequences), batch_first=True)
        return Padded.from_lengths(values, lengths)

    @staticmethod
    def from_lengths(values: Tensor, lengths: Tensor | Sequence[int]) -> Padded:
        """Take an already padded tensor and the true length of each of its samples."""
        lengths = torch.as_tensor(lengths, device=values.device)
        if lengths.is_floating_point() or lengths.dtype == torch.bool:
            raise InputError(f"lengths hold {lengths.dtype}; give whole numbers")
        if lengths.shape != values.shape[:1]:
            raise ShapeError(
                f"{tuple(lengths.shape)} lengths for a batch of {len(values)}; give one a sample"
            )
        longest = int(lengths.max()) if len(lengths) else 0
        if longest > values.shape[1]:
            raise ShapeError(
                f"a length of {longest} in a batch padded to {values.shape[1]}; "
                "lengths count real inputs and cannot exceed the padded size"
            )
        places = torch.arange(values.shape[1], device=values.device)
        return Padded(values, places < lengths[:, None])


@dataclass(frozen=True)
class Maps:
    """A batch of feature maps, and which of their cells count (row-major; None for all)."""

    values: Float[Tensor, "batch channels height width"]
    mask: Bool[Tensor, "batch cells"] | None = None

    def to(self, device: torch.device | str) -> Maps:
        mask = None if self.mask is None else self.mask.to(device)
        return Maps(self.values.to(device), mask)

    def __len__(self) -> int:
        return len(self.values)


@dataclass(frozen=True)
class Features:
    """What a feature extractor gives to a set module (Sec. 3.1).

    Attributes:
        local: the local features psi(x), one row an input.
        mask: True where an input is real.
        pooled: the global feature phi(x).
        positions: position codes that a set module adds to its keys, or None.
    """

    local: Float[Tensor, "batch inputs width"]
    mask: Bool[Tensor, "batch inputs"]
    pooled: Float[Tensor, "batch dim"]
    positions: Float[Tensor, "batch inputs width"] | None = None


@dataclass(frozen=True)
class EmbeddingSets:
    """A batch of embedding sets, with what losses and analysis need to know of their making.

    Attributes:
        elements: the sets S, l2-normalised; this is what similarities compare.
        slots: LN(E^T), the elements before the global feature; the diversity loss sees these.
        attention: one map an iteration where it was asked for, otherwise empty. A map holds the
            share of every input that each slot won (softmax over slots) and 0 on padding.
        gaussian: the distribution behind sampled sets (PCME), otherwise None.
        pooled: the global feature as it was added to the slots, where one was.
    """

    elements: Float[Tensor, "batch slots dim"]
    slots: Float[Tensor, "batch slots dim"]
    attention: tuple[Float[Tensor, "batch heads slots inputs"], ...] = ()
    gaussian: Gaussian | None = None
    pooled: Float[Tensor, "batch dim"] | None = None


@dataclass(frozen=True)
class Gaussian:
    """A diagonal normal distribution for each sample, and what was drawn from it."""

    mean: Float[Tensor, "batch dim"]
    log_sigma: Float[Tensor, "batch dim"]
    samples: Float[Tensor, "batch samples dim"]
