"""One side of a model: a trainable backbone if there is one, features, and sets."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from copy import deepcopy
from dataclasses import replace
from typing import Any, NoReturn

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from diverset.backbones import Backbone
from diverset.errors import InputError, OptionError
from diverset.runtime.autocast import autocast, precision_dtype
from diverset.types import EmbeddingSets, Features, Maps, Padded

Inputs = Padded | Maps | Tensor
# Threads that share an encoder copy it once. Not an attribute: locks cannot be copied.
_COPYING = threading.Lock()


class Encoder(nn.Module):
    """A feature extractor and a set module, over a backbone where it is trained as well.

    A frozen backbone, or the frozen blocks before trainable ones, are not part of the encoder:
    `forward` reads their output.
    """

    def __init__(
        self, features: nn.Module, sets: nn.Module, backbone: Backbone | None = None
    ) -> None:
        super().__init__()
        self.backbone = backbone
        self.features = features
        self.sets = sets
        # In a tuple it is not a submodule: the converted weights and precision, and the copy.
        self._inference: tuple[object, Encoder] | None = None

    def forward(self, inputs: Inputs, with_attention: bool = False) -> EmbeddingSets:
        if self.backbone is not None:
            inputs = self.backbone(inputs)
        features: Features = self.features(inputs)
        sets: EmbeddingSets = self.sets(features, with_attention)
        return replace(sets, features=features)

    @torch.no_grad()
    def encode(self, batches: Iterable[Inputs], precision: str = "float32") -> Tensor:
        """The normalised sets of several batches as one tensor, in evaluation mode."""
        first = next(self.parameters())
        encoder = self if precision == "float32" else self.for_inference(precision)
        elements = []
        with evaluation_mode(encoder):
            for batch in batches:
                inputs = cast_floating(batch.to(first.device), first.dtype)
                with autocast(first.device, precision):
                    elements.append(encoder(inputs).elements)
        sets = join_sets(elements)
        if precision != "float32":
            sets = F.normalize(sets.to(first.dtype), dim=-1)
        row = first_nonfinite(sets)
        if row is not None:
            raise InputError(
                f"the set of item {row} is not finite; its input is too large for {first.dtype}, "
                "or the model's weights are damaged or diverged in training"
            )
        return sets

    def for_inference(self, precision: str = "float32") -> Encoder:
        """A frozen copy in its fastest form, made again only after a weight has changed.

        Its linear layers have weights of this precision, to which autocast would convert them for
        every batch.
        """
        versions = [(tensor.data_ptr(), tensor._version) for tensor in self.state_dict().values()]
        key = (precision, versions)
        with _COPYING:
            if self._inference is None or self._inference[0] != key:
                self._inference = None  # a copy of the copy would be useless
                converted = _linear_weights(self, precision_dtype(precision))
                copy = deepcopy(self, converted).eval().requires_grad_(False)
                if copy.backbone is not None:
                    copy.backbone = copy.backbone.for_inference()
                self._inference = (key, copy)
            return self._inference[1]


class UnloadedEncoder(Encoder):
    """In place of the side of a model that was not loaded."""

    def __init__(self, side: str) -> None:
        super().__init__(nn.Identity(), nn.Identity())
        self.side = side

    def forward(self, *_: object, **__: object) -> NoReturn:
        raise OptionError(f"the {self.side} side of this model was not loaded; load all of it")

    encode = forward


def _linear_weights(module: nn.Module, dtype: torch.dtype) -> dict[int, Any]:
    """The weights of all linear layers in this type, by the id of the original: a memo of
    `deepcopy`."""
    return {
        id(weight): nn.Parameter(weight.detach().to(dtype, copy=True))
        for layer in module.modules()
        if type(layer) is nn.Linear  # subclasses may read their weights in other ways
        for weight in layer.parameters()
    }


@contextmanager
def evaluation_mode(module: nn.Module) -> Iterator[None]:
    """Evaluation mode within a block; every submodule returns to its own mode afterwards."""
    trained = [part for part in module.modules() if part.training]
    if trained:  # setting the mode of every part takes as long as encoding a text
        module.eval()
    try:
        yield
    finally:
        for part in trained:
            part.training = True


def cast_floating(inputs: Inputs, dtype: torch.dtype) -> Inputs:
    """Floating-point inputs in the dtype of the model; ids stay as they are."""
    if isinstance(inputs, Tensor):
        return inputs.to(dtype)
    if not inputs.values.is_floating_point():
        return inputs
    return type(inputs)(inputs.values.to(dtype), inputs.mask)  # type: ignore[arg-type]


def first_nonfinite(values: Tensor) -> int | None:
    """The first row that holds NaN or infinity."""
    if values.isfinite().all():
        return None
    return int((~values.isfinite()).flatten(1).any(dim=1).nonzero()[0])


def join_sets(batches: list[Tensor]) -> Tensor:
    """Sets of several batches as one tensor; smaller sets are padded with zero rows."""
    largest = max(batch.shape[1] for batch in batches)
    return torch.cat([F.pad(batch, (0, 0, 0, largest - batch.shape[1])) for batch in batches])
