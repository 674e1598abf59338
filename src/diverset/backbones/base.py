"""The interface of backbones: pixels to a feature map, or texts to token states."""

from __future__ import annotations

from collections.abc import Sequence
from copy import deepcopy
from typing import Any, Self

import torch
from jaxtyping import Float
from torch import Tensor, nn

from diverset.data.preprocess import Preprocess
from diverset.errors import InputError, OptionError, ShapeError
from diverset.runtime.autocast import autocast
from diverset.runtime.weights import weight_hash
from diverset.types import Padded


class Backbone(nn.Module):
    """A network that can be frozen in part, split and identified by its weights.

    Attributes:
        name: of the network, in messages and file names.
        width: channels of the map, or width of a token state.
    """

    name: str
    width: int
    _fingerprint: str | None = None  # of the original, in a copy for inference

    @property
    def device(self) -> torch.device:
        return next(self.parameters()).device

    def stages(self) -> list[nn.Module]:
        """The blocks of the network from the input to the output."""
        raise NotImplementedError

    def settings(self) -> str:
        """Everything besides the weights that decides the output: preprocessing, lengths."""
        raise NotImplementedError

    def last_stages(self, count: int) -> list[nn.Module]:
        """The last `count` stages, those nearest to the output."""
        stages = self.stages()
        if not 0 <= count <= len(stages):
            raise OptionError(
                f"{count} trainable blocks of {self.name}, which has {len(stages)}; "
                f"give 0 to {len(stages)}"
            )
        return stages[len(stages) - count :]

    def set_trainable_blocks(self, count: int) -> None:
        """Train only the last `count` stages; 0 freezes all.

        Frozen stages stay in evaluation mode, so that their batch-norm statistics do not change.
        """
        blocks = self.last_stages(count)
        self.requires_grad_(False)
        for block in blocks:
            block.requires_grad_(True)
        self.train(self.training)

    def train(self, mode: bool = True) -> Self:
        """Switch trainable modules to training mode; frozen ones stay in evaluation mode."""
        super().train(mode)
        if mode:
            for module in self.modules():
                parameters = list(module.parameters())
                if parameters and not any(parameter.requires_grad for parameter in parameters):
                    module.eval()
        return self

    def split(self, count: int) -> tuple[Self, Backbone]:
        """A frozen copy without the last `count` stages, and a trainable copy of these stages.

        The second applied to the output of the first equals the network.
        """
        raise OptionError(f"{self.name} cannot be split; leave cache_frozen_features at false")

    def for_inference(self) -> Self:
        """A frozen copy optimised for speed; its output agrees up to rounding."""
        copy = deepcopy(self, self._shared()).eval().requires_grad_(False)
        copy._fingerprint = self.fingerprint()
        for module in list(copy.modules()):
            fold = getattr(module, "fold", None)  # fuses a batch norm into its convolution
            if callable(fold):
                fold()
        copy.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
        return copy

    def _shared(self) -> dict[int, Any]:
        """What a copy for inference shares with the original, by id: a memo of `deepcopy`."""
        return {}

    @torch.no_grad()
    def extract(self, inputs: Any, precision: str = "float32") -> Any:
        """What the frozen backbone computes: without gradients, in `precision`, as float32."""
        with autocast(self.device, precision):
            outputs = self(inputs)
        if isinstance(outputs, Tensor):
            return outputs.float()
        return Padded(outputs.values.float(), outputs.mask)

    def fingerprint(self) -> str:
        """A hash of the weights and settings; a copy for inference has that of its original."""
        if self._fingerprint is not None:
            return self._fingerprint
        return weight_hash(self.state_dict(), f"{type(self).__name__} {self.settings()}")


class ImageBackbone(Backbone):
    """Pixels to the last feature map.

    Attributes:
        preprocess: from an image to the pixels of this network.
    """

    preprocess: Preprocess

    @property
    def size(self) -> int:
        """Height and width of the input."""
        return self.preprocess.size

    def settings(self) -> str:
        return repr(self.preprocess)

    def forward(
        self, pixels: Float[Tensor, "batch 3 height width"]
    ) -> Float[Tensor, "batch channels rows columns"]:
        if pixels.ndim != 4 or pixels.shape[1] != 3 or not pixels.is_floating_point():
            raise ShapeError(
                f"pixels for {self.name} are {pixels.dtype} {tuple(pixels.shape)}; give floating "
                "point (batch, 3, height, width), the output of its `preprocess`"
            )
        return self.feature_map(pixels)

    def feature_map(self, pixels: Tensor) -> Tensor:
        """The last feature map; `forward` has checked the pixels."""
        raise NotImplementedError


class TextBackbone(Backbone):
    """Texts to token ids, and token ids to token states."""

    def tokenize(self, texts: Sequence[str]) -> Padded:
        """Token ids of texts, with the start and end tokens of the network."""
        raise NotImplementedError

    def forward(self, tokens: Padded) -> Padded:
        """States (batch, tokens, width) of token ids, under the same mask."""
        raise NotImplementedError

    def count_states(self, ids: Tensor) -> int:
        """How many states a text with these token ids has: one per token, unless pooled."""
        return len(ids)


def check_texts(texts: Sequence[str]) -> list[str]:
    """The texts as a list; raises if one is empty."""
    if isinstance(texts, str):
        raise InputError(f"texts is one string, {texts!r}; give a list of strings")
    if not texts:
        raise InputError("an empty list of texts cannot be tokenised; give at least one")
    for index, text in enumerate(texts):
        if not isinstance(text, str) or not text.strip():
            raise InputError(f"texts[{index}] is {text!r}, it has no words; give at least one")
    return list(texts)


def largest_list(module: nn.Module) -> nn.ModuleList | list[nn.Module]:
    """The repeated layers of an unknown network: its ModuleList with the most parameters."""
    lists = [child for child in module.modules() if isinstance(child, nn.ModuleList)]
    sizes = [sum(parameter.numel() for parameter in layers.parameters()) for layers in lists]
    return lists[sizes.index(max(sizes))] if lists else [module]
