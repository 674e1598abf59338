"""What every pretrained network looks like to the rest of diverset.

A backbone turns pixels into its last feature map, or token ids into token states, and can name
its own weights. It does not know projections, sets or losses; those start in `diverset.features`.
"""

from __future__ import annotations

from collections.abc import Sequence
from copy import deepcopy
from typing import Self

import torch
from jaxtyping import Float
from torch import Tensor, nn

from diverset.data.preprocess import Preprocess
from diverset.errors import InputError, OptionError, ShapeError
from diverset.fingerprint import fingerprint
from diverset.types import Padded


class Backbone(nn.Module):
    """A network whose lower part can be frozen and whose weights have a name.

    Attributes:
        name: how the network is called in messages and file names.
        width: channels of the map, or width of a token state.
    """

    name: str
    width: int

    @property
    def device(self) -> torch.device:
        return next(self.parameters()).device

    def stages(self) -> list[nn.Module]:
        """The parts of the network from the input to the output."""
        raise NotImplementedError

    def settings(self) -> str:
        """What besides the weights decides the output, as text: preprocessing, lengths."""
        raise NotImplementedError

    def upper_blocks(self, count: int) -> list[nn.Module]:
        """The last `count` stages, those nearest to the output."""
        stages = self.stages()
        if not 0 <= count <= len(stages):
            raise OptionError(
                f"{count} upper blocks of {self.name}, which has {len(stages)}; "
                f"give 0 to {len(stages)}"
            )
        return stages[len(stages) - count :]

    def freeze_below(self, count: int) -> None:
        """Leave only the last `count` stages trainable; 0 freezes all.

        Frozen parts also stay in evaluation mode, so that their batch-norm statistics do not move.
        """
        upper = self.upper_blocks(count)
        self.requires_grad_(False)
        for block in upper:
            block.requires_grad_(True)
        self.train(self.training)

    def train(self, mode: bool = True) -> Self:
        """Switch what is trainable to training mode; frozen parts remain in evaluation mode."""
        super().train(mode)
        if mode:
            for module in self.modules():
                own = list(module.parameters())
                if own and not any(parameter.requires_grad for parameter in own):
                    module.eval()
        return self

    def split(self, count: int) -> tuple[Self, Backbone]:
        """A frozen copy of all but the last `count` stages, and a copy of these stages.

        The second turns what the first gives into what the whole network gives.
        """
        raise OptionError(
            f"{self.name} cannot be cut below its upper blocks; leave cache_below at false"
        )

    def for_inference(self) -> Self:
        """A frozen copy in the form that runs fastest; its numbers agree up to rounding."""
        copy = deepcopy(self).eval().requires_grad_(False)
        for module in list(copy.modules()):
            fold = getattr(module, "fold", None)  # a batch norm merged into its convolution
            if callable(fold):
                fold()
        copy.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
        return copy

    def fingerprint(self) -> str:
        """A short name of these very weights and of what goes before them."""
        return fingerprint(self, f"{type(self).__name__} {self.settings()}")


class PictureBackbone(Backbone):
    """Pixels to the last feature map.

    Attributes:
        preprocess: how a picture becomes pixels for this network.
    """

    preprocess: Preprocess

    @property
    def size(self) -> int:
        """Height and width of the pixels it was made for."""
        return self.preprocess.size

    def settings(self) -> str:
        return repr(self.preprocess)

    def forward(
        self, pixels: Float[Tensor, "batch 3 height width"]
    ) -> Float[Tensor, "batch channels rows columns"]:
        raise NotImplementedError


class TextBackbone(Backbone):
    """Texts to token ids, and token ids to token states."""

    def tokenize(self, texts: Sequence[str]) -> Padded:
        """Token ids of texts, with the network's own start and end tokens."""
        raise NotImplementedError

    def forward(self, tokens: Padded) -> Padded:
        """States (batch, tokens, width) of token ids, under the same mask."""
        raise NotImplementedError


def check_pixels(name: str, pixels: Tensor) -> None:
    """Raise unless these can be pixels of a batch of pictures."""
    if pixels.ndim != 4 or pixels.shape[1] != 3 or not pixels.is_floating_point():
        raise ShapeError(
            f"pixels for {name} are {pixels.dtype} {tuple(pixels.shape)}; give floating point "
            "(batch, 3, height, width), as its `preprocess` makes them"
        )


def check_texts(texts: Sequence[str]) -> list[str]:
    """Raise unless these are texts with something in them; returns them as a list."""
    if isinstance(texts, str):
        raise InputError(f"texts is one string, {texts!r}; give a list of strings")
    if not texts:
        raise InputError("an empty list of texts cannot be tokenised; give at least one")
    for place, text in enumerate(texts):
        if not isinstance(text, str) or not text.strip():
            raise InputError(f"texts[{place}] is {text!r}, it has no words; give at least one")
    return list(texts)


def largest_list(module: nn.Module) -> nn.ModuleList | list[nn.Module]:
    """The repeated layers of a network whose inside we do not know: its heaviest ModuleList."""
    lists = [part for part in module.modules() if isinstance(part, nn.ModuleList)]
    weights = [sum(weight.numel() for weight in part.parameters()) for part in lists]
    return lists[weights.index(max(weights))] if lists else [module]
