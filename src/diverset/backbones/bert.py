"""BERT without the transformers library: its import alone takes longer than a search.

Parameters are named as in that library, so that its files load as they are and a fingerprint of
the weights is the same either way. It reads folders with a BERT in safetensors and a
tokenizer.json, such as MiniLM; everything else goes through `transformers_loading`.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from safetensors import SafetensorError
from safetensors.torch import load_file
from torch import Tensor, nn
from torch.nn import functional as F

from diverset.errors import CheckpointError, a_few, import_extra


@dataclass(frozen=True)
class BertSettings:
    """What of config.json decides the numbers."""

    vocab_size: int
    hidden_size: int
    num_hidden_layers: int
    num_attention_heads: int
    intermediate_size: int
    max_position_embeddings: int = 512
    type_vocab_size: int = 2
    layer_norm_eps: float = 1e-12
    hidden_dropout_prob: float = 0.1


@dataclass(frozen=True)
class States:
    """What a network of the transformers library returns, as far as it is read here."""

    last_hidden_state: Tensor


class Bert(nn.Module):
    """Token ids to token states."""

    def __init__(self, settings: BertSettings) -> None:
        super().__init__()
        self.config = settings
        self.embeddings = _Embeddings(settings)
        self.encoder = nn.Module()
        self.encoder.layer = nn.ModuleList(
            _Layer(settings) for _ in range(settings.num_hidden_layers)
        )
        self.pooler = nn.Module()  # unused, but part of the file and of its fingerprint
        self.pooler.dense = nn.Linear(settings.hidden_size, settings.hidden_size)

    def forward(self, input_ids: Tensor, attention_mask: Tensor) -> States:
        states = self.embeddings(input_ids)
        mask = attention_mask.bool()[:, None, None]
        for layer in self.encoder.layer:  # type: ignore[union-attr]
            states = layer(states, mask)
        return States(states)


class _Embeddings(nn.Module):
    def __init__(self, settings: BertSettings) -> None:
        super().__init__()
        width = settings.hidden_size
        self.word_embeddings = nn.Embedding(settings.vocab_size, width)
        self.position_embeddings = nn.Embedding(settings.max_position_embeddings, width)
        self.token_type_embeddings = nn.Embedding(settings.type_vocab_size, width)
        self.LayerNorm = nn.LayerNorm(width, eps=settings.layer_norm_eps)
        self.dropout = nn.Dropout(settings.hidden_dropout_prob)

    def forward(self, ids: Tensor) -> Tensor:
        places = self.position_embeddings.weight[: ids.shape[1]]
        found: Tensor = self.word_embeddings(ids) + self.token_type_embeddings.weight[0] + places
        normed: Tensor = self.dropout(self.LayerNorm(found))
        return normed


class _Output(nn.Module):
    """A projection, added to what went before, and normed."""

    def __init__(self, inputs: int, settings: BertSettings) -> None:
        super().__init__()
        self.dense = nn.Linear(inputs, settings.hidden_size)
        self.LayerNorm = nn.LayerNorm(settings.hidden_size, eps=settings.layer_norm_eps)
        self.dropout = nn.Dropout(settings.hidden_dropout_prob)

    def forward(self, x: Tensor, before: Tensor) -> Tensor:
        found: Tensor = self.LayerNorm(self.dropout(self.dense(x)) + before)
        return found


class _Layer(nn.Module):
    def __init__(self, settings: BertSettings) -> None:
        super().__init__()
        width = settings.hidden_size
        self.heads, self.drop = settings.num_attention_heads, settings.hidden_dropout_prob
        self.attention = nn.Module()
        own = nn.Module()
        own.query, own.key, own.value = (nn.Linear(width, width) for _ in range(3))
        self.attention.add_module("self", own)
        self.attention.output = _Output(width, settings)
        self.intermediate = nn.Module()
        self.intermediate.dense = nn.Linear(width, settings.intermediate_size)
        self.output = _Output(settings.intermediate_size, settings)

    def forward(self, x: Tensor, mask: Tensor) -> Tensor:
        own: Any = self.attention.get_submodule("self")
        query, key, value = (self._split(part(x)) for part in (own.query, own.key, own.value))
        drop = self.drop if self.training else 0.0
        mixed = F.scaled_dot_product_attention(query, key, value, mask, drop)
        x = self.attention.output(mixed.transpose(1, 2).flatten(2), x)  # type: ignore[operator]
        inner = F.gelu(self.intermediate.dense(x))  # type: ignore[operator]
        found: Tensor = self.output(inner, x)
        return found

    def _split(self, x: Tensor) -> Tensor:
        return x.view(*x.shape[:2], self.heads, -1).transpose(1, 2)


class WordPieces:
    """The tokenizer of a folder, called as the transformers library calls its own."""

    def __init__(self, folder: Path) -> None:
        self.file = str(folder / "tokenizer.json")
        said = json.loads((folder / "tokenizer_config.json").read_text(encoding="utf-8"))
        self.model_max_length = int(said["model_max_length"])
        self._made = import_extra("tokenizers", "backbones").Tokenizer.from_file(self.file)
        self._made.no_padding()

    def __call__(
        self, texts: Sequence[str], truncation: bool, max_length: int
    ) -> dict[str, list[list[int]]]:
        self._made.enable_truncation(max_length)
        return {"input_ids": [one.ids for one in self._made.encode_batch(list(texts))]}

    def get_vocab(self) -> dict[str, int]:
        words: dict[str, int] = self._made.get_vocab()
        return words


def load_bert(folder: Path) -> tuple[Bert, WordPieces]:
    """The network and the tokenizer of a folder, every weight from its file."""
    try:
        said = json.loads((folder / "config.json").read_text(encoding="utf-8"))
        names = BertSettings.__dataclass_fields__
        network = Bert(BertSettings(**{name: said[name] for name in names}))
        tensors = load_file(folder / "model.safetensors")
        tokenizer = WordPieces(folder)
    except (OSError, KeyError, ValueError, SafetensorError) as error:
        raise CheckpointError(f"{folder} holds no complete BERT ({error}); install it again") from (
            error
        )
    tensors.pop("embeddings.position_ids", None)  # a constant that old files carry
    missing = network.load_state_dict(tensors, strict=False, assign=True)
    if missing.missing_keys or missing.unexpected_keys:
        wrong = [*missing.missing_keys, *missing.unexpected_keys]
        raise CheckpointError(f"{folder} is of another network than BERT: {a_few(wrong)}")
    return network.eval(), tokenizer
