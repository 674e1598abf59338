"""BERT without the transformers library, whose import takes longer than a search.

Parameters have the names of that library, so that its files load unchanged and fingerprints agree.
It reads folders with a BERT in safetensors and a tokenizer.json, such as MiniLM; other networks are
loaded by `transformers_loading`.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file
from torch import Tensor, nn
from torch.nn import functional as F

from diverset.errors import CheckpointError, import_extra
from diverset.runtime.weights import load_strictly


class Bert(nn.Module):
    """Token ids to token states; `config` has the fields of config.json."""

    def __init__(self, config: SimpleNamespace) -> None:
        super().__init__()
        self.config = config
        self.embeddings = _Embeddings(config)
        self.encoder = nn.Module()
        self.encoder.layer = nn.ModuleList(_Layer(config) for _ in range(config.num_hidden_layers))
        self.pooler = nn.Module()  # unused, but part of the file and of the fingerprint
        self.pooler.dense = nn.Linear(config.hidden_size, config.hidden_size)

    def forward(self, input_ids: Tensor, attention_mask: Tensor) -> SimpleNamespace:
        states = self.embeddings(input_ids)
        mask = attention_mask.bool()[:, None, None]
        for layer in self.encoder.layer:  # type: ignore[union-attr]
            states = layer(states, mask)
        return SimpleNamespace(last_hidden_state=states)


class _Embeddings(nn.Module):
    def __init__(self, config: SimpleNamespace) -> None:
        super().__init__()
        width = config.hidden_size
        self.word_embeddings = _embedding(config.vocab_size, width)
        self.position_embeddings = _embedding(config.max_position_embeddings, width)
        self.token_type_embeddings = _embedding(config.type_vocab_size, width)
        self.LayerNorm = nn.LayerNorm(width, eps=config.layer_norm_eps)
        self.dropout = nn.Dropout(config.hidden_dropout_prob)

    def forward(self, ids: Tensor) -> Tensor:
        positions = self.position_embeddings.weight[: ids.shape[1]]
        x: Tensor = self.word_embeddings(ids) + self.token_type_embeddings.weight[0] + positions
        x = self.dropout(self.LayerNorm(x))
        return x


def _embedding(rows: int, width: int) -> nn.Embedding:
    # Without a weight it is drawn, for which torch imports its compiler on the "meta" device.
    empty = torch.empty(rows, width)
    return nn.Embedding(rows, width, _weight=empty if empty.is_meta else None)


class _Output(nn.Module):
    """Projection, residual sum and layer norm."""

    def __init__(self, inputs: int, config: SimpleNamespace) -> None:
        super().__init__()
        self.dense = nn.Linear(inputs, config.hidden_size)
        self.LayerNorm = nn.LayerNorm(config.hidden_size, eps=config.layer_norm_eps)
        self.dropout = nn.Dropout(config.hidden_dropout_prob)

    def forward(self, x: Tensor, residual: Tensor) -> Tensor:
        y: Tensor = self.LayerNorm(self.dropout(self.dense(x)) + residual)
        return y


class _Layer(nn.Module):
    def __init__(self, config: SimpleNamespace) -> None:
        super().__init__()
        width = config.hidden_size
        self.heads, self.drop = config.num_attention_heads, config.hidden_dropout_prob
        self.attention = nn.Module()
        projections = nn.Module()
        projections.query, projections.key, projections.value = (
            nn.Linear(width, width) for _ in range(3)
        )
        self.attention.add_module("self", projections)
        self.attention.output = _Output(width, config)
        self.intermediate = nn.Module()
        self.intermediate.dense = nn.Linear(width, config.intermediate_size)
        self.output = _Output(config.intermediate_size, config)

    def forward(self, x: Tensor, mask: Tensor) -> Tensor:
        own: Any = self.attention.get_submodule("self")
        query, key, value = (self._heads(layer(x)) for layer in (own.query, own.key, own.value))
        drop = self.drop if self.training else 0.0
        mixed = F.scaled_dot_product_attention(query, key, value, mask, drop)
        x = self.attention.output(mixed.transpose(1, 2).flatten(2), x)  # type: ignore[operator]
        inner = F.gelu(self.intermediate.dense(x))  # type: ignore[operator]
        y: Tensor = self.output(inner, x)
        return y

    def _heads(self, x: Tensor) -> Tensor:
        return x.view(*x.shape[:2], self.heads, -1).transpose(1, 2)


class WordPieces:
    """The tokenizer of a folder, with the interface of those of the transformers library."""

    def __init__(self, folder: Path) -> None:
        config = json.loads((folder / "tokenizer_config.json").read_text(encoding="utf-8"))
        self.model_max_length = int(config["model_max_length"])
        tokenizers = import_extra("tokenizers", "backbones")
        self.file = folder / "tokenizer.json"  # copied by the ONNX export
        self._tokenizer = tokenizers.Tokenizer.from_file(str(self.file))
        self._tokenizer.no_padding()

    def __call__(
        self, texts: Sequence[str], truncation: bool, max_length: int
    ) -> dict[str, list[list[int]]]:
        self._tokenizer.enable_truncation(max_length)
        return {
            "input_ids": [encoding.ids for encoding in self._tokenizer.encode_batch(list(texts))]
        }

    def get_vocab(self) -> dict[str, int]:
        return dict(self._tokenizer.get_vocab())


def load_bert(folder: Path) -> tuple[Bert, WordPieces]:
    """The network and the tokenizer of a folder, with all weights."""
    network, tensors, tokenizer = _read(folder)
    load_strictly(network, tensors, str(folder))
    return network.eval(), tokenizer


def load_first_layers(folder: Path, count: int) -> tuple[Bert, list[nn.Module], WordPieces]:
    """The network without its last `count` layers and its pooler, these layers without their
    weights, and the tokenizer.

    The weights of the network are those of the mapped file, which nobody may change.
    """
    with torch.device("meta"):
        network, tensors, tokenizer = _read(folder)
    layers: Any = network.encoder.layer
    first = len(layers) - count
    last_layers = [_with_memory(layer) for layer in layers[first:]]
    del layers[first:]
    network.pooler = None  # type: ignore[assignment]  # reads the last states
    names = network.state_dict().keys()
    kept = {name: tensor for name, tensor in tensors.items() if name in names}
    load_strictly(network, kept, str(folder), assign=True)
    return network.eval(), last_layers, tokenizer


def _with_memory(layer: nn.Module) -> nn.Module:
    """A layer with uninitialised weights; `to_empty` would import torch's compiler."""
    for module in layer.modules():
        for name, weight in list(module.named_parameters(recurse=False)):
            setattr(module, name, nn.Parameter(torch.empty(weight.shape)))
    return layer


def _read(folder: Path) -> tuple[Bert, dict[str, Tensor], WordPieces]:
    """The network with new weights, the stored weights, and the tokenizer."""
    try:
        config = json.loads((folder / "config.json").read_text(encoding="utf-8"))
        network = Bert(SimpleNamespace(**config))
        tensors: dict[str, Tensor] = load_file(folder / "model.safetensors")
        tensors.pop("embeddings.position_ids", None)  # a constant in old files
        return network, tensors, WordPieces(folder)
    except (OSError, AttributeError, KeyError, ValueError, SafetensorError) as error:
        raise CheckpointError(f"no complete BERT in {folder} ({error}); reinstall it") from error
