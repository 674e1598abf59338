"""Two encoders and a similarity: what is trained, saved, and searched with."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from os import PathLike
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, cast

import numpy as np
import torch
from jaxtyping import Float, Int
from PIL.Image import Image
from torch import Tensor, nn

from diverset.backbones import Backbone, ImageBackbone, TextBackbone
from diverset.config import CROSS_ATTENTION, ImageConfig, ModelConfig, TextConfig
from diverset.cross_attention import nonzero_rows, scan
from diverset.data.vocabulary import Vocabulary
from diverset.errors import CheckpointError, OptionError
from diverset.model.build import (
    BackboneParts,
    backbone_parts,
    cross_attention_module,
    image_modules,
    text_modules,
)
from diverset.model.encoder import Encoder, Inputs, UnloadedEncoder, evaluation_mode
from diverset.model.expected_shapes import check_shapes
from diverset.model.frozen_backbones import FrozenBackbones
from diverset.model.hub import local_folder, push_folder
from diverset.model.inputs import as_maps, batches, is_image, pad_features, pad_words, to_batch
from diverset.model.pretrained import (
    SavedModel,
    model_fingerprint,
    narrow,
    read_folder,
    write_folder,
)
from diverset.model.reference import read_reference
from diverset.model.slot_maps import slot_maps
from diverset.runtime.prefetch import prefetch
from diverset.runtime.weights import load_strictly
from diverset.similarity import SIMILARITIES, MatchProbability, Similarity, similarity_matrix
from diverset.types import EmbeddingSets, Padded

BATCH = 128
IMAGE_BATCH = 32  # images read from pixels: larger batches do not fit in the processor's cache
ImageInputs = str | PathLike[str] | Image | Tensor | np.ndarray | Sequence[Any]
TextInputs = str | Tensor | np.ndarray | Sequence[Any]


class Model(nn.Module):
    """The paper's model, or one of its baselines, as the configuration says.

    Args:
        config: what to build.
        vocabulary: needed where texts are encoded by a bi-GRU.
        pretrained: False builds trainable backbones without their pretrained weights where that is
            faster, for weights that are loaded afterwards.
        texts_only: leave the image side out.

    >>> from diverset.config import ModelConfig, SetConfig
    >>> words = Vocabulary.build(["a dog runs", "a cat sleeps"], min_count=1)
    >>> small = SetConfig(inner_width=8, heads=1)
    >>> model = Model(ModelConfig(dim=8, image_set=small, text_set=small), words)
    >>> regions = [torch.randn(3, 2048), torch.randn(5, 2048)]  # of two images
    >>> images = model.encode_images(regions)
    >>> texts = model.encode_texts(["a cat", "a dog sleeps", "a dog"])
    >>> images.shape, texts.shape, model.similarity(images, texts).shape
    (torch.Size([2, 4, 8]), torch.Size([3, 4, 8]), torch.Size([2, 3]))
    """

    def __init__(
        self,
        config: ModelConfig,
        vocabulary: Vocabulary | None = None,
        pretrained: bool = True,
        texts_only: bool = False,
    ) -> None:
        super().__init__()
        self.config = config
        self.vocabulary = vocabulary
        images = None if texts_only else image_modules(config)
        texts = text_modules(config, vocabulary)
        image_parts = BackboneParts() if texts_only else backbone_parts(config.image, pretrained)
        text_parts = backbone_parts(config.text, pretrained)
        self.image_encoder = (
            Encoder(*images, image_parts.trainable) if images else UnloadedEncoder("image")
        )
        self.text_encoder = Encoder(*texts, text_parts.trainable)
        frozen_image = image_parts.frozen if pretrained else None
        self._frozen = FrozenBackbones(config, {"image": frozen_image, "text": text_parts.frozen})
        self.match_probability = (
            MatchProbability() if config.similarity.kind == "match_probability" else None
        )
        self.cross_attention = cross_attention_module(config.dim, config.similarity)
        self._saved_fingerprint: str | None = None  # of a model of which a part is loaded

    @property
    def device(self) -> torch.device:
        return next(self.parameters()).device

    @property
    def dtype(self) -> torch.dtype:
        return next(self.parameters()).dtype

    @property
    def has_sets(self) -> bool:
        """Whether items have sets of one size, rather than all their local features."""
        return self.config.image_set.kind != "local"

    def forward(self, images: Inputs, texts: Inputs) -> tuple[EmbeddingSets, EmbeddingSets]:
        """The sets of a training batch, with what the losses need."""
        return self.image_encoder(images), self.text_encoder(texts)

    def score(
        self,
        images: Float[Tensor, "images slots dim"],
        texts: Float[Tensor, "texts slots dim"],
        alpha: float | None = None,
        image_index: Int[Tensor, " texts"] | None = None,
    ) -> Float[Tensor, "images texts"]:
        """The model's similarity, differentiable; for a training batch.

        `alpha` overrides smooth-Chamfer's scaling, where it is annealed. `image_index`, the row of
        the image of each text, lets NAAF adapt its thresholds in training mode.
        """
        kind, options = self.config.similarity.kind, self._similarity_options()
        scores: Tensor
        if self.match_probability is not None:
            scores = self.match_probability(images, texts)
        elif kind in CROSS_ATTENTION:
            local = images, nonzero_rows(images), texts, nonzero_rows(texts)
            if self.cross_attention is None:
                scores = scan(*local, **options)
            else:
                scores = self.cross_attention(*local, *((image_index,) if kind == "naaf" else ()))
        else:
            if alpha is not None and "alpha" in options:
                options["alpha"] = alpha
            scores = SIMILARITIES[kind](images, texts, **options)
        return scores

    def similarity(
        self,
        images: Float[Tensor, "images slots dim"],
        texts: Float[Tensor, "texts slots dim"],
        **limits: Any,
    ) -> Float[Tensor, "images texts"]:
        """The model's similarity between whole collections, in bounded memory.

        `limits` are those of `diverset.similarity.similarity_matrix`: max_memory, device.
        """
        kind, options = self.own_similarity()
        return similarity_matrix(images, texts, kind, **limits, **options)

    def own_similarity(self) -> tuple[str | Similarity, dict[str, Any]]:
        """This model's similarity and its options, as arguments of `similarity_matrix`.

        By name where possible: blocks of a named similarity are cheaper than calls of a function.
        """
        kind = self.config.similarity.kind
        if kind in SIMILARITIES:
            return kind, self._similarity_options()
        return self._score_for_evaluation, {}

    def _score_for_evaluation(
        self, images: Float[Tensor, "images slots dim"], texts: Float[Tensor, "texts slots dim"]
    ) -> Float[Tensor, "images texts"]:
        """`score` without dropout and with stored statistics, also during training."""
        with evaluation_mode(self.cross_attention or nn.Identity()):
            return self.score(images, texts)

    def _similarity_options(self) -> dict[str, Any]:
        similarity = self.config.similarity
        if similarity.kind == "scan":
            names = ("direction", "attention", "sharpness", "pooling")
            return {name: getattr(similarity, name) for name in names}
        return {"alpha": similarity.alpha} if similarity.kind == "smooth_chamfer" else {}

    def encode_images(
        self,
        images: ImageInputs,
        lengths: Tensor | Sequence[int] | None = None,
        batch_size: int | None = None,
        precision: str = "float32",
    ) -> Float[Tensor, "images slots dim"]:
        """The normalised sets of images, in evaluation mode.

        Args:
            images: for a model with an image backbone a path or PIL image, or a list of these;
                else a list of (regions, width) arrays, or an array (batch, regions, width) or
                (batch, channels, height, width).
            lengths: number of real regions of each image in a padded array; all by default.
            batch_size: images encoded at once; by default 32 from pixels, 128 from features.
            precision: "bfloat16" runs backbones several times faster on CPUs that support it.
        """
        items: Any = [images] if is_image(images) else images
        if not isinstance(items, Tensor) and len(items) and is_image(items[0]):
            parts = batches(items, IMAGE_BATCH if batch_size is None else batch_size)
            pixels = prefetch(partial(to_batch, self.image_backbone().preprocess), parts)
            inputs = (self.image_inputs(batch, precision) for batch in pixels)
            return self.image_encoder.encode(inputs, precision)
        size = BATCH if batch_size is None else batch_size
        if self.config.image.kind == "convolution":
            if lengths is not None:
                raise OptionError("lengths count regions, not cells of feature maps; omit them")
            return self.image_encoder.encode(batches(as_maps(items), size), precision)
        regions = pad_features("images", items, lengths)
        return self.image_encoder.encode(batches(regions, size), precision)

    def encode_texts(
        self,
        texts: TextInputs,
        lengths: Tensor | Sequence[int] | None = None,
        batch_size: int = BATCH,
        precision: str = "float32",
    ) -> Float[Tensor, "texts slots dim"]:
        """The normalised sets of texts, in evaluation mode.

        Args:
            texts: a string or a list of strings; or word ids, as a list of sequences or as a
                padded array (pad 0); or, for a transformer, its token states (tokens, width).
            lengths: number of real words of each text in a padded array.
            batch_size: texts encoded at once.
            precision: as for `encode_images`.
        """
        items: Any = [texts] if isinstance(texts, str) else texts
        if self.config.text.kind == "bigru":
            padded = pad_words(items, lengths, self.vocabulary)
        elif not isinstance(items, Tensor) and len(items) and isinstance(items[0], str):
            tokens = prefetch(self.text_backbone().tokenize, batches(items, batch_size))
            inputs = (self.text_inputs(batch, precision) for batch in tokens)
            return self.text_encoder.encode(inputs, precision)
        else:
            padded = pad_features("texts", items, lengths)
        return self.text_encoder.encode(batches(padded, batch_size), precision)

    def image_inputs(
        self, pixels: Float[Tensor, "batch 3 height width"], precision: str = "float32"
    ) -> Tensor:
        """What the image encoder reads: maps of a frozen backbone, or the pixels themselves."""
        frozen, pixels = self.frozen_backbone("image"), pixels.to(self.device)
        return pixels if frozen is None else cast(ImageBackbone, frozen).extract(pixels, precision)

    def text_inputs(self, tokens: Padded, precision: str = "float32") -> Padded:
        """What the text encoder reads: states of a frozen backbone, or the tokens themselves."""
        frozen, tokens = self.frozen_backbone("text"), tokens.to(self.device)
        return tokens if frozen is None else cast(TextBackbone, frozen).extract(tokens, precision)

    def element_maps(
        self, image: Image, precision: str = "float32"
    ) -> Float[Tensor, "slots rows columns"]:
        """Which part of an image each element of its set represents, over the part that the
        network sees (`Preprocess.visible_box`)."""
        preprocess = self.image_backbone().preprocess
        pixels = preprocess.batch([preprocess.pixels(image)], self.device)
        maps: Tensor = slot_maps(self.image_encoder, self.image_inputs(pixels, precision))[0]
        return maps

    def image_backbone(self) -> ImageBackbone:
        """What reads pixels: a backbone trained with the encoder, a frozen one, or the frozen
        blocks before the trainable ones."""
        return cast(ImageBackbone, self.frozen_backbone("image") or self.image_encoder.backbone)

    def text_backbone(self) -> TextBackbone:
        """What reads tokens; see `image_backbone`."""
        return cast(TextBackbone, self.frozen_backbone("text") or self.text_encoder.backbone)

    def frozen_backbone(self, side: str) -> Backbone | None:
        """The frozen backbone, or frozen blocks of one, whose output the encoder of "image" or
        "text" reads; None if the encoder contains the whole backbone."""
        config: ImageConfig | TextConfig = getattr(self.config, side)
        encoder: Encoder = getattr(self, f"{side}_encoder")
        if not config.is_cached and encoder.backbone is not None:
            return None
        return self._frozen.get(side, self.device)

    def frozen_fingerprints(self) -> dict[str, str]:
        """Fingerprints of the frozen backbones, by "image" and "text"; saved with the model."""
        return self._frozen.fingerprints()

    def fingerprint(self) -> str:
        """A hash of configuration and weights; files made with a model carry it."""
        return self._saved_fingerprint or model_fingerprint(self.config, self.state_dict())

    def save_pretrained(
        self,
        folder: str | PathLike[str],
        card: str | None = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        """Write config.json, model.safetensors, the vocabulary and a model card.

        `dtype`, e.g. torch.float16, stores rounded weights in fewer bits; they are loaded as
        float32.
        """
        tensors = {name: narrow(name, value, dtype) for name, value in self.state_dict().items()}
        backbones = self.frozen_fingerprints()
        saved = SavedModel(self.config, tensors, self.vocabulary, frozen_backbones=backbones)
        write_folder(folder, saved, card)

    def push_to_hub(
        self,
        name: str,
        *,
        card: str | None = None,
        private: bool | None = None,
        revision: str | None = None,
        message: str = "Upload a diverset model",
    ) -> str:
        """Upload what `save_pretrained` writes to the Hugging Face hub (extra `hub`).

        Args:
            name: "owner/name"; created if it does not exist.
            card: text of the model card; a short default otherwise.
            private: whether a new repository is private; the owner's default if None.
            revision: an existing branch; the main branch by default.
            message: of the commit.

        Returns:
            The address of the commit.
        """
        with TemporaryDirectory() as folder:
            self.save_pretrained(folder, card)
            return push_folder(Path(folder), name, private, revision, message)

    @classmethod
    def from_pretrained(
        cls,
        folder: str | PathLike[str],
        device: torch.device | str = "cpu",
        *,
        allow_download: bool = False,
        revision: str | None = None,
    ) -> Model:
        """Load what `save_pretrained` wrote, in evaluation mode; missing or unexpected weights
        are an error.

        Args:
            folder: of the model, or its name on the Hugging Face hub, "owner/name".
            device: where to put it.
            allow_download: whether a model of the hub may be downloaded; otherwise it must be in
                the hub's cache.
            revision: a branch, tag or commit of a model of the hub.
        """
        return cls.from_folder(local_folder(folder, allow_download, revision), device)

    @classmethod
    def from_folder(
        cls, folder: Path, device: torch.device | str = "cpu", texts_only: bool = False
    ) -> Model:
        """Load a local folder; with `texts_only` in a fraction of the time, because the weights of
        the image side are checked but not built."""
        saved = read_folder(folder)
        check_shapes(saved.config, saved.vocabulary, saved.tensors, str(folder))
        with ThreadPoolExecutor(1) as hashing:  # beside the construction
            weights = saved.config, saved.tensors, torch.float32
            fingerprint = hashing.submit(model_fingerprint, *weights)
            model = cls(saved.config, saved.vocabulary, pretrained=False, texts_only=texts_only)
            unused = ("image_encoder.",) if texts_only else ()
            loaded = {name: t for name, t in saved.tensors.items() if not name.startswith(unused)}
            load_strictly(model, loaded, str(folder))
        if fingerprint.result() != saved.fingerprint:
            raise CheckpointError(
                f"the weights in {folder} do not belong to its config.json (fingerprint "
                f"{fingerprint.result()}, expected {saved.fingerprint}); copy the whole folder "
                "again"
            )
        model._saved_fingerprint = saved.fingerprint if texts_only else None
        model._frozen.expect(saved.frozen_backbones, str(folder))
        return model.eval().to(device)

    @classmethod
    def from_reference(
        cls,
        checkpoint: str | PathLike[str],
        vocabulary: Vocabulary | str | PathLike[str] | None = None,
        heads: int = 4,
    ) -> Model:
        """Load a `*.pth.tar` trained with the paper's released code (regions + bi-GRU).

        Its sets are slots or those of PVSE; its GRU's directions are averaged or concatenated.

        Args:
            checkpoint: the file; only tensors and plain values are unpickled.
            vocabulary: the vocabulary it was trained with, JSON or pickle; without one the model
                reads word ids only.
            heads: attention heads, which the file does not record; the released code has four.
        """
        saved = read_reference(checkpoint, vocabulary, heads)
        model = cls(saved.config, saved.vocabulary)
        load_strictly(model, saved.tensors, str(checkpoint))
        return model.eval()
