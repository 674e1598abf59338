"""Two encoders joined by a similarity: what is trained, saved, and searched with.

Inputs are region features, feature maps or token states, and texts as words; reading files is
the business of `diverset.data`, writing weights that of `diverset.pretrained`.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from os import PathLike
from typing import Any, cast

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional as F

from diverset.backbones import Backbone, PictureBackbone, TextBackbone
from diverset.building import (
    frozen_pictures,
    frozen_texts,
    image_features,
    set_module,
    text_features,
    trained_backbones,
)
from diverset.config import ModelConfig, chosen_settings
from diverset.cross_attention import scan
from diverset.data.vocabulary import Vocabulary
from diverset.encoder import Encoder, Inputs, autocast
from diverset.errors import CheckpointError, InputError, OptionError
from diverset.fingerprint import fingerprint
from diverset.inputs import (
    ahead,
    as_maps,
    as_padded,
    as_precise,
    batches,
    evaluation_mode,
    is_picture,
    join_sets,
    stacked,
    word_ids,
)
from diverset.similarity import (
    SIMILARITIES,
    MatchProbability,
    Similarity,
    similarity_matrix,
)
from diverset.types import EmbeddingSets, Padded

BATCH = 128
PICTURES = 32  # more at once leave the processor's cache


class Model(nn.Module):
    """The paper's model, or one of its baselines, as `architecture` says.

    Args:
        architecture: what to build.
        vocabulary: needed where texts are encoded by a bi-GRU.

    >>> from diverset.config import ModelConfig, SetConfig
    >>> words = Vocabulary.build(["a dog runs", "a cat sleeps"], min_count=1)
    >>> small = SetConfig(inner_width=8, heads=1)
    >>> model = Model(ModelConfig(dim=8, image_set=small, text_set=small), words)
    >>> pictures = [torch.randn(3, 2048), torch.randn(5, 2048)]  # regions of two pictures
    >>> images = model.encode_images(pictures)
    >>> texts = model.encode_texts(["a cat", "a dog sleeps", "a dog"])
    >>> images.shape, texts.shape, model.similarity(images, texts).shape
    (torch.Size([2, 4, 8]), torch.Size([3, 4, 8]), torch.Size([2, 3]))
    """

    def __init__(self, architecture: ModelConfig, vocabulary: Vocabulary | None = None) -> None:
        super().__init__()
        self.architecture = architecture
        self.vocabulary = vocabulary
        dim = architecture.dim
        images = image_features(dim, architecture.image)
        texts = text_features(dim, architecture.text, vocabulary)
        image_sets = set_module(dim, images.width, architecture.image_set)
        text_sets = set_module(dim, texts.width, architecture.text_set)
        trained = trained_backbones(architecture)
        self.image_encoder = Encoder(images, image_sets, trained.pictures)
        self.text_encoder = Encoder(texts, text_sets, trained.texts)
        self._frozen: dict[str, Backbone] = {}  # not weights of this model: found when needed
        self._below: dict[str, str] = {}
        self.trained_over: dict[str, str] = {}  # what `below` has to be, where that is known
        self.match_probability = (
            MatchProbability() if architecture.similarity.kind == "match_probability" else None
        )

    @property
    def device(self) -> torch.device:
        return next(self.parameters()).device

    @property
    def dtype(self) -> torch.dtype:
        return next(self.parameters()).dtype

    def forward(self, images: Inputs, texts: Inputs) -> tuple[EmbeddingSets, EmbeddingSets]:
        """The sets of a training batch, with what the losses need."""
        return self.image_encoder(images), self.text_encoder(texts)

    def score(
        self,
        images: Float[Tensor, "images slots dim"],
        texts: Float[Tensor, "texts slots dim"],
        alpha: float | None = None,
    ) -> Float[Tensor, "images texts"]:
        """The model's own similarity, differentiable; for a training batch.

        `alpha` takes the place of smooth-Chamfer's own, where it is annealed.
        """
        if self.match_probability is not None:
            scores: Tensor = self.match_probability(images, texts)
            return scores
        if self.architecture.similarity.kind == "scan":
            return scan(images, texts, **self._options())
        options = self._options()
        if alpha is not None and "alpha" in options:
            options["alpha"] = alpha
        return SIMILARITIES[self.architecture.similarity.kind](images, texts, **options)

    def similarity(
        self,
        images: Float[Tensor, "images slots dim"],
        texts: Float[Tensor, "texts slots dim"],
        **limits: Any,
    ) -> Float[Tensor, "images texts"]:
        """The model's own similarity between whole collections, in bounded memory.

        `limits` are those of `diverset.similarity.similarity_matrix`: max_memory, device.
        """
        own, options = self.own_similarity()
        return similarity_matrix(images, texts, own, **limits, **options)

    def own_similarity(self) -> tuple[str | Similarity, dict[str, Any]]:
        """How this model compares sets, as the functions that score collections take it.

        By name where it has one: blocks of a named similarity are cheaper than calls of `score`.
        """
        kind = self.architecture.similarity.kind
        return (kind, self._options()) if kind in SIMILARITIES else (self.score, {})

    @property
    def has_sets(self) -> bool:
        """Whether items have sets of one size, rather than all their local features."""
        return self.architecture.image_set.kind != "local"

    def encode_images(
        self,
        images: Tensor | Sequence[Tensor | np.ndarray],
        lengths: Tensor | Sequence[int] | None = None,
        batch_size: int = BATCH,
        precision: str = "float32",
    ) -> Float[Tensor, "images slots dim"]:
        """The normalised sets of pictures, in evaluation mode.

        Args:
            images: a list of pictures, opened or as paths, for a model with a network under it;
                a list of (regions, width) arrays; or a tensor (batch, regions, width) or
                (batch, channels, height, width).
            lengths: number of real regions of each image in a padded tensor; all by default.
            batch_size: how many are encoded at once; of pictures at most 32.
            precision: "bfloat16" runs networks several times faster on CPUs that have it.
        """
        if not isinstance(images, Tensor) and len(images) and is_picture(images[0]):
            network = self.picture_network()
            return self._encode_raw(
                self.image_encoder,
                network,
                lambda some: stacked(network.preprocess, some),
                images,
                min(batch_size, PICTURES),
                precision,
            )
        if self.architecture.image.kind == "convolution":
            if lengths is not None:
                raise OptionError("lengths count regions; feature maps have none")
            return self._encode(self.image_encoder, as_maps(images), batch_size, precision)
        regions = as_padded("images", images, lengths, dims=2)
        return self._encode(self.image_encoder, regions, batch_size, precision)

    def encode_texts(
        self,
        texts: Sequence[str] | Tensor | Sequence[Tensor | np.ndarray | Sequence[int]],
        lengths: Tensor | Sequence[int] | None = None,
        batch_size: int = BATCH,
        precision: str = "float32",
    ) -> Float[Tensor, "texts slots dim"]:
        """The normalised sets of texts, in evaluation mode.

        Args:
            texts: a list of strings; or word ids, as a list of sequences or as a padded tensor
                (pad 0); or, for a transformer, its token states (tokens, width).
            lengths: number of real words of each text in a padded tensor.
            batch_size: how many are encoded at once.
            precision: as for `encode_images`.
        """
        if isinstance(texts, str):
            raise InputError(f"texts is one string, {texts!r}; give a list of strings")
        if not isinstance(texts, Tensor) and len(texts) and isinstance(texts[0], str):
            if self.architecture.text.backbone:
                network = self.text_network()
                return self._encode_raw(
                    self.text_encoder, network, network.tokenize, texts, batch_size, precision
                )
            texts = self._word_ids(texts)
        states = self.architecture.text.kind == "transformer"
        if not states:
            texts, lengths = word_ids(texts, lengths)
        padded = as_padded("texts", texts, lengths, dims=2 if states else 1)
        return self._encode(self.text_encoder, padded, batch_size, precision)

    def fingerprint(self) -> str:
        """A short name of these very weights; files made with a model carry it."""
        about = json.dumps(chosen_settings(self.architecture), sort_keys=True)
        return fingerprint(self, about)

    def save_pretrained(
        self,
        folder: str | PathLike[str],
        card: str | None = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        """Write config.json, model.safetensors, the vocabulary and a model card.

        `dtype`, e.g. torch.float16, stores weights in fewer bits; they are read as float32.
        """
        from diverset.pretrained import save_pretrained

        save_pretrained(self, folder, card, dtype)

    @classmethod
    def from_pretrained(
        cls, folder: str | PathLike[str], device: torch.device | str = "cpu"
    ) -> Model:
        """Read what `save_pretrained` wrote; anything missing or left over is an error."""
        from diverset.pretrained import load_pretrained

        return load_pretrained(folder).to(device)

    @classmethod
    def from_reference(
        cls,
        checkpoint: str | PathLike[str],
        vocabulary: Vocabulary | str | PathLike[str] | None = None,
        heads: int = 4,
    ) -> Model:
        """Read a `*.pth.tar` trained with the paper's released code (regions + bi-GRU).

        Args:
            checkpoint: the file; it is never unpickled freely.
            vocabulary: the vocabulary it was trained with, JSON or pickle; without one the model
                reads word ids only.
            heads: attention heads, which the file does not tell; the released code has four.
        """
        from diverset.reference import load_reference

        return load_reference(checkpoint, vocabulary, heads)

    def picture_network(self) -> PictureBackbone:
        """What reads pictures: a network trained with the encoder, a frozen one, or its part
        below the trained blocks."""
        image = self.architecture.image
        if not image.is_cached and self.image_encoder.backbone is not None:
            return cast(PictureBackbone, self.image_encoder.backbone)
        found = self._frozen_network("pictures", lambda: frozen_pictures(image))
        return cast(PictureBackbone, found)

    def text_network(self) -> TextBackbone:
        """What reads texts: as `picture_network`."""
        text = self.architecture.text
        if not text.is_cached and self.text_encoder.backbone is not None:
            return cast(TextBackbone, self.text_encoder.backbone)
        found = self._frozen_network("texts", lambda: frozen_texts(text))
        return cast(TextBackbone, found)

    def below(self, everything: bool = False) -> dict[str, str]:
        """Fingerprints of frozen networks that are not stored with the model.

        Those below trained blocks, and others as far as they were needed; `everything` asks for
        all of them.
        """
        chosen = self.architecture
        if chosen.image.cache_below or (everything and chosen.image.backbone):
            self.picture_network()
        if chosen.text.cache_below or (everything and chosen.text.backbone):
            self.text_network()
        return dict(self._below)

    def _frozen_network(self, side: str, load: Callable[[], Backbone]) -> Backbone:
        if side not in self._frozen:
            network = load()
            name = network.fingerprint()
            if self.trained_over.get(side, name) != name:
                raise CheckpointError(
                    f"this model was trained over network {self.trained_over[side]} for {side}, "
                    f"the one installed is {name}; install the version of its package it was "
                    "trained with"
                )
            self._below[side], self._frozen[side] = name, network.for_inference()
        return self._frozen[side].to(self.device)

    def _encode_raw(
        self,
        encoder: Encoder,
        network: Backbone,
        prepare: Callable[[Sequence[Any]], Padded | Tensor],
        items: Sequence[Any],
        batch_size: int,
        precision: str,
    ) -> Tensor:
        """Network, features and sets, batch by batch: a folder of pictures fits in no memory."""
        _check_batch_size(batch_size)
        below = network if network is not encoder.backbone else None
        if precision != "float32":
            encoder = encoder.for_inference()
        found = []
        for inputs in ahead(prepare, items, batch_size):
            inputs = inputs.to(self.device)
            if below is not None:
                with torch.no_grad(), autocast(self.device, precision):
                    inputs = below(inputs)
            found.append(self._encode(encoder, inputs, batch_size, precision))
        return join_sets(found)

    def _options(self) -> dict[str, Any]:
        similarity = self.architecture.similarity
        if similarity.kind == "scan":
            names = ("direction", "attention", "sharpness", "pooling")
            return {name: getattr(similarity, name) for name in names}
        return {"alpha": similarity.alpha} if similarity.kind == "smooth_chamfer" else {}

    def _word_ids(self, texts: Sequence[Any]) -> list[Tensor]:
        if self.vocabulary is None:
            raise InputError(
                "this model has no vocabulary, so it cannot read strings; give it word ids, or "
                "load it with its vocabulary"
            )
        return [torch.tensor(self.vocabulary.encode(text)) for text in texts]

    @torch.no_grad()
    def _encode(
        self, encoder: Encoder, inputs: Padded | Tensor, batch_size: int, precision: str
    ) -> Tensor:
        _check_batch_size(batch_size)
        with evaluation_mode(encoder), autocast(self.device, precision):
            found = [
                encoder(as_precise(batch.to(self.device), self.dtype)).elements
                for batch in batches(inputs, batch_size)
            ]
        sets = join_sets(found)
        if precision != "float32":
            sets = F.normalize(sets.to(self.dtype), dim=-1)
        if not sets.isfinite().all():
            place = int((~sets.isfinite()).flatten(1).any(dim=1).nonzero()[0])
            raise InputError(
                f"the set of item {place} is not finite; its input is too large for {self.dtype}, "
                "or the model's weights are damaged"
            )
        return sets


def _check_batch_size(batch_size: int) -> None:
    if not isinstance(batch_size, int) or batch_size < 1:
        raise OptionError(f"batch_size is {batch_size!r}; give a whole number from 1 on")
