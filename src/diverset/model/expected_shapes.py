"""Checking the weights of a saved model before the model is built.

A config.json of a few bytes can ask for a network of terabytes. The modules are built without
memory first (torch's "meta" device), so that only what the weights really contain is allocated.
"""

from __future__ import annotations

import torch
from torch import Tensor

from diverset.config import ModelConfig
from diverset.data.vocabulary import Vocabulary
from diverset.model.build import cross_attention_module, image_modules, text_modules
from diverset.model.encoder import Encoder
from diverset.runtime.weights import check_weights


def check_shapes(
    config: ModelConfig, vocabulary: Vocabulary | None, tensors: dict[str, Tensor], source: str
) -> None:
    """Raise unless features, sets and similarity have weights of the configured shapes."""
    with torch.device("meta"):
        modules = {
            "image_encoder": Encoder(*image_modules(config)),
            "text_encoder": Encoder(*text_modules(config, vocabulary)),
            "cross_attention": cross_attention_module(config.dim, config.similarity),
        }
    expected = {
        f"{part}.{name}": tensor
        for part, module in modules.items()
        if module is not None
        for name, tensor in module.state_dict().items()
    }
    found = {name: tensors[name] for name in tensors.keys() & expected.keys()}
    check_weights(expected, found, source, wants="its config.json asks for")
