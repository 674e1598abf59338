"""The data types shared by all packages: inputs, features, embedding sets.

Every mask is True where an input is real and False where it is padding.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from diverset.errors import InputError, ShapeError


def can_inspect(tensor: Tensor) -> bool:
    """Whether values can be checked for free.

    A trace has no values, and reading values of an accelerator would make every training step wait.
    """
    return tensor.device.type == "cpu" and not torch.compiler.is_compiling()


@dataclass(frozen=True)
class Padded:
    """A batch of sequences of different lengths, padded on the right to the longest.

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
        if not can_inspect(self.mask):
            return
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

    def real_first(self) -> Padded:
        """Real inputs before padding, in their order; training may drop inputs in the middle.

        >>> mask = torch.tensor([[True, False, True]])
        >>> Padded(torch.tensor([[4, 5, 6]]), mask).real_first().values.tolist()
        [[4, 6, 5]]
        """
        order = (~self.mask).int().argsort(dim=1, stable=True)
        columns = order.reshape(*order.shape, *[1] * (self.values.ndim - 2))
        values = self.values.gather(1, columns.expand_as(self.values))
        return Padded(values, self.mask.gather(1, order))

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
                f"{tuple(lengths.shape)} lengths for a batch of {len(values)}; give one per sample"
            )
        longest = int(lengths.max()) if len(lengths) else 0
        if longest > values.shape[1]:
            raise ShapeError(
                f"a length of {longest} in a batch padded to {values.shape[1]}; "
                "lengths count real inputs and cannot exceed the padded size"
            )
        columns = torch.arange(values.shape[1], device=values.device)
        return Padded(values, columns < lengths[:, None])


@dataclass(frozen=True)
class Maps:
    """A batch of feature maps, and a mask of their cells (row-major; None if all are used)."""

    values: Float[Tensor, "batch channels height width"]
    mask: Bool[Tensor, "batch cells"] | None = None

    def to(self, device: torch.device | str) -> Maps:
        mask = None if self.mask is None else self.mask.to(device)
        return Maps(self.values.to(device), mask)

    def __len__(self) -> int:
        return len(self.values)


@dataclass(frozen=True)
class Features:
    """The output of a feature extractor (Sec. 3.1), the input of a set module.

    Attributes:
        local: the local features psi(x), one row per input.
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
    """A batch of embedding sets, with intermediate results for losses and analysis.

    Attributes:
        elements: the sets S, l2-normalised; similarities compare these.
        slots: LN(E^T), the slots before the global feature is added; input of the diversity loss.
        attention: one map per iteration if requested, otherwise empty. A map holds the share of
            every input that each slot attends to (softmax over slots), and 0 on padding.
        gaussian: the distribution of sampled sets (PCME), otherwise None.
        pooled: the global feature that was added to the slots, or None.
        features: the features that the sets were predicted from.
    """

    elements: Float[Tensor, "batch slots dim"]
    slots: Float[Tensor, "batch slots dim"]
    attention: tuple[Float[Tensor, "batch heads slots inputs"], ...] = ()
    gaussian: Gaussian | None = None
    pooled: Float[Tensor, "batch dim"] | None = None
    features: Features | None = None


@dataclass(frozen=True)
class Gaussian:
    """A diagonal normal distribution per sample, and the samples drawn from it."""

    mean: Float[Tensor, "batch dim"]
    log_sigma: Float[Tensor, "batch dim"]
    samples: Float[Tensor, "batch samples dim"]
