"""The text half of a CLIP, SigLIP or SigLIP 2: one projected embedding per prompt of a text."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from typing import Any, Self

import torch
from torch import Tensor, nn

from diverset.backbones.base import TextBackbone, check_texts
from diverset.errors import OptionError
from diverset.types import Padded

PLACEHOLDER = "{}"  # stands for the text in a prompt


class DualEncoderTexts(TextBackbone):
    """Texts to the embeddings of their prompts: (batch, prompts, width).

    The other arguments are those of `DualEncoderImages`.

    Args:
        prompts: templates with "{}" in place of the text; the text itself if empty.
        ignores_padding: whether tokens after the end of a text do not change its embedding (CLIP).
            SigLIP was trained with padding to its full length, which the embedding depends on.
    """

    def __init__(
        self,
        name: str,
        network: Any,
        projection: nn.Module,
        tokenizer: Any,
        prompts: Sequence[str],
        ignores_padding: bool,
        configuration: str,
    ) -> None:
        super().__init__()
        for prompt in prompts:
            if PLACEHOLDER not in prompt:
                raise OptionError(
                    f"the prompt {prompt!r} has no {PLACEHOLDER} for the text; give for example "
                    "'a photo of {}'"
                )
        self.name, self.network, self.projection = name, network, projection
        self.tokenizer, self.prompts = tokenizer, tuple(prompts) or (PLACEHOLDER,)
        self.ignores_padding, self._configuration = ignores_padding, configuration
        self.max_length = int(network.config.max_position_embeddings)
        width = getattr(network.config, "projection_size", network.config.hidden_size)
        self.width = int(getattr(projection, "out_features", width))
        self.eval()

    def tokenize(self, texts: Sequence[str]) -> Padded:
        """Ids of all prompts of a text one after the other, each padded to the full length."""
        prompts = [
            prompt.replace(PLACEHOLDER, text)
            for text in check_texts(texts)
            for prompt in self.prompts
        ]
        ids = self.tokenizer(
            prompts, padding="max_length", truncation=True, max_length=self.max_length
        )["input_ids"]
        values = torch.tensor(ids).view(len(texts), -1)
        return Padded(values, torch.ones_like(values, dtype=torch.bool))

    def forward(self, tokens: Padded) -> Padded:
        ids = tokens.values.reshape(-1, self.max_length)
        if self.ignores_padding:
            ids = ids[:, : self._longest(ids)]
        embeddings = self.projection(self.network(input_ids=ids).pooler_output)
        values = embeddings.view(len(tokens), -1, self.width)
        return Padded(values, values.new_ones(values.shape[:2], dtype=torch.bool))

    def count_states(self, ids: Tensor) -> int:
        return len(ids) // self.max_length

    def _longest(self, ids: Tensor) -> int:
        """The length of the longest text with its first end token."""
        is_end = ids == self.tokenizer.eos_token_id
        ends = is_end.long().argmax(dim=1) + 1
        return int(torch.where(is_end.any(dim=1), ends, ids.shape[1]).max())

    def for_inference(self) -> Self:
        return self.requires_grad_(False)  # there is nothing to fuse, and a copy would be large

    def stages(self) -> list[nn.Module]:
        return [self.network]

    def settings(self) -> str:
        words = json.dumps(self.tokenizer.get_vocab(), sort_keys=True)
        vocabulary = hashlib.sha256(words.encode()).hexdigest()
        return f"prompts={self.prompts} words={vocabulary} {self._configuration}"
