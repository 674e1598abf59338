"""CLIP, SigLIP and SigLIP 2 as models: sets of their own embeddings, without training."""

from __future__ import annotations

import json
from collections.abc import Sequence
from os import PathLike
from typing import NoReturn, cast

import torch
from jaxtyping import Float
from PIL.Image import Image
from torch import Tensor

from diverset.backbones.dual_encoder import DualEncoderParts, load_dual_encoder
from diverset.backbones.dual_encoder_images import ViewPreprocess
from diverset.config import (
    PRECOMPUTED,
    ImageConfig,
    ModelConfig,
    SetConfig,
    SimilarityConfig,
    TextConfig,
)
from diverset.errors import OptionError
from diverset.model.frozen_backbones import FrozenBackbones
from diverset.model.hub import local_folder
from diverset.model.model import Model
from diverset.runtime.weights import weight_hash


class DualEncoder(Model):
    """A model whose sets are embeddings of a frozen CLIP, SigLIP or SigLIP 2.

    An image's set has one element per view: the whole image, and overlapping squares of it. A
    text's set has one element per prompt. Smooth-Chamfer's alpha is the scale that the model
    multiplies cosines with in its own softmax; with one element on both sides the similarity is
    the cosine, whatever alpha.
    """

    def __init__(self, parts: DualEncoderParts) -> None:
        images, texts, scale = parts
        config = ModelConfig(
            dim=images.width,
            image=ImageConfig(
                kind="convolution", backbone=f"transformers:{images.name}", input_width=images.width
            ),
            text=TextConfig(
                kind="transformer", backbone=f"transformers:{texts.name}", input_width=texts.width
            ),
            image_set=SetConfig(kind=PRECOMPUTED, size=images.preprocess.crops),
            text_set=SetConfig(kind=PRECOMPUTED, size=len(texts.prompts)),
            similarity=SimilarityConfig(alpha=scale),
        )
        super().__init__(config)
        self._frozen = FrozenBackbones(config, {"image": images, "text": texts})

    @classmethod
    def from_pretrained(
        cls,
        folder: str | PathLike[str],
        device: torch.device | str = "cpu",
        crops: int = 1,
        prompts: Sequence[str] = (),
        *,
        allow_download: bool = False,
        revision: str | None = None,
    ) -> DualEncoder:
        """Load a folder of the transformers library: weights, tokenizer and image processor.

        Args:
            folder: written by `save_pretrained` of a CLIP, SigLIP or SigLIP 2 and its processor.
            device: where to put it.
            crops: elements of an image's set: 1, 5 (whole image and 2 x 2 squares), 10 or 17.
            prompts: templates such as "a photo of {}", one per element of a text's set.
            allow_download: as for `Model.from_pretrained`.
            revision: as for `Model.from_pretrained`.
        """
        path = local_folder(folder, allow_download, revision)
        model = cls(load_dual_encoder(path, crops, prompts))
        return model.eval().to(device)

    def element_maps(
        self, image: Image, precision: str = "float32"
    ) -> Float[Tensor, "slots rows columns"]:
        """The part of the image that each view shows: 1 inside, 0 outside."""
        return cast(ViewPreprocess, self.image_backbone().preprocess).view_maps(image.size)

    def fingerprint(self) -> str:
        """A hash of both halves: weights and configuration, preprocessing and tokenizer, crops and
        prompts."""
        halves = {**self.frozen_fingerprints(), "alpha": self.config.similarity.alpha}
        return weight_hash({}, json.dumps(halves, sort_keys=True))

    def save_pretrained(self, *_: object, **__: object) -> NoReturn:
        raise OptionError(
            "a CLIP or SigLIP model has no weights of its own to save; copy its folder instead"
        )
