"""The model that a training starts from: new, or with the weights of an existing model."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from diverset.config import ModelConfig, flat_options
from diverset.data import Vocabulary, load_vectors
from diverset.errors import CheckpointError
from diverset.features import BiGruFeatures
from diverset.model import Model
from diverset.model.folder import model_folder
from diverset.model.pretrained import SavedModel, read_folder
from diverset.recipe.config import Recipe
from diverset.recipe.datasets import DatasetReader
from diverset.runtime.weights import load_strictly

MAY_DIFFER = {
    *("image.dropout", "text.dropout", "image_set.dropout", "text_set.dropout"),
    *("image.backbone_size", "similarity.alpha", "similarity.attention", "similarity.sharpness"),
}
"""Options that a training may change: the meaning of the weights does not depend on them."""


def make_model(recipe: Recipe, reader: DatasetReader) -> Model:
    """A new model, or one with the weights and the vocabulary of `train.initial_model`."""
    if recipe.train.initial_model is not None:
        return load_weights(recipe.model, recipe.train.initial_model)
    model = Model(recipe.model, _vocabulary(recipe, reader))
    _load_word_vectors(model, recipe)
    return model


def load_weights(config: ModelConfig, name: str) -> Model:
    """A model of this architecture with the weights of a run, a model folder or a shipped model.

    A model with one slot can be continued with several, see `grow_slots`.
    """
    folder = model_folder(name)
    saved = read_folder(folder)
    check_same_architecture(config, saved.config, name)
    model = Model(config, saved.vocabulary)
    load_strictly(model, grow_slots(saved, config), str(folder))
    _check_backbones(model, saved, name)
    return model


def growing_sides(config: ModelConfig, saved: ModelConfig) -> list[str]:
    """The sides on which a model with one learned slot is continued with several."""
    sets = {"image": (saved.image_set, config.image_set), "text": (saved.text_set, config.text_set)}
    return [
        side
        for side, (old, new) in sets.items()
        if (old.kind, old.initial, old.size) == ("slots", "learned", 1) and new.size > 1
    ]


def grow_slots(saved: SavedModel, config: ModelConfig) -> dict[str, Tensor]:
    """The saved weights, with several slots where the model is to have more than its only one.

    Each is the learned slot plus standard normal noise, as large as new slots are. With one slot
    the attention is constant, so its queries and keys have not been trained.
    """
    tensors = dict(saved.tensors)
    for side in growing_sides(config, saved.config):
        name = f"{side}_encoder.sets.slots"
        size = getattr(config, f"{side}_set").size
        tensors[name] = tensors[name] + torch.randn(size, tensors[name].shape[1])
    return tensors


def check_same_architecture(config: ModelConfig, saved: ModelConfig, name: str) -> None:
    """Raise an error that names the first option in which the architectures differ."""
    expected = flat_options(saved)
    may_differ = MAY_DIFFER | {f"{side}_set.size" for side in growing_sides(config, saved)}
    for option, value in flat_options(config).items():
        from_vocabulary = option == "text.vocabulary_size" and value is None
        if value != expected[option] and option not in may_differ and not from_vocabulary:
            raise CheckpointError(
                f"model.{option} is {_yaml(value)}, but the initial model {name} has "
                f"{_yaml(expected[option])}; give --model.{option} {_yaml(expected[option])}, or "
                "train without an initial model"
            )


def _check_backbones(model: Model, saved: SavedModel, name: str) -> None:
    """Raise unless the frozen backbones are those that the weights were trained with."""
    for side, fingerprint in model.frozen_fingerprints().items():
        # The fingerprint includes the input size, which may differ.
        sizes = model.config.image.backbone_size, saved.config.image.backbone_size
        resized = side == "image" and sizes[0] != sizes[1]
        if not resized and saved.frozen_backbones.get(side) != fingerprint:
            raise CheckpointError(
                f"{name} was trained with the {side} backbone {saved.frozen_backbones.get(side)}, "
                f"the installed one is {fingerprint}; install the package version of the former"
            )


def _yaml(value: Any) -> str:
    """A value as it is written on the command line."""
    return value if isinstance(value, str) else json.dumps(value)


def _vocabulary(recipe: Recipe, reader: DatasetReader) -> Vocabulary | None:
    """The words of the training captions; a transformer brings its own tokenizer."""
    if recipe.model.text.kind != "bigru":
        return None
    return Vocabulary.build(reader.read(recipe.data.train).captions, recipe.data.min_count)


def _load_word_vectors(model: Model, recipe: Recipe) -> None:
    """Initialize the embeddings of a bi-GRU by `data.vectors`, a file or the name of a package."""
    features = model.text_encoder.features
    if not recipe.data.vectors or not isinstance(features, BiGruFeatures):
        return
    assert model.vocabulary is not None
    file = Path(recipe.data.root).expanduser() / recipe.data.vectors
    source = str(file) if file.exists() else recipe.data.vectors
    vectors, _ = load_vectors(source, model.vocabulary, recipe.train.seed)
    features.set_words(torch.from_numpy(vectors))
