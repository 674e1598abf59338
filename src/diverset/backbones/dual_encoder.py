"""Load both halves of a CLIP, SigLIP or SigLIP 2 from a folder of the transformers library."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from torch import nn

from diverset.backbones.crops import grid_side
from diverset.backbones.dual_encoder_images import DualEncoderImages, ViewPreprocess
from diverset.backbones.dual_encoder_texts import DualEncoderTexts
from diverset.backbones.transformers_image import preprocess_from
from diverset.backbones.transformers_loading import (
    load_image_processor,
    load_image_settings,
    load_network,
    load_tokenizer,
)

# Of Pillow rather than torchvision, which does not import next to every build of torch.
IMAGE_PROCESSORS = {
    "clip": "CLIPImageProcessorPil",
    "siglip": "SiglipImageProcessorPil",
    "siglip2": "Siglip2ImageProcessorPil",
}
# Fields of config.json that do not change the output.
NOTES = ("_name_or_path", "transformers_version", "architectures", "dtype", "torch_dtype")


class DualEncoderParts(NamedTuple):
    """Both halves, and the scale that the model multiplies cosines with in its own softmax."""

    images: DualEncoderImages
    texts: DualEncoderTexts
    scale: float


def load_dual_encoder(
    folder: Path, crops: int = 1, prompts: Sequence[str] = ()
) -> DualEncoderParts:
    """Both halves of a model, from local files.

    Args:
        folder: written by `save_pretrained` of the transformers library.
        crops: views of an image, the first being the whole image.
        prompts: templates with "{}" in place of a text; the text itself if empty.
    """
    grid_side(crops)  # raises before anything is loaded
    network = load_network(folder)
    kind = network.config.model_type
    processor = load_image_processor(folder, IMAGE_PROCESSORS[kind])
    stored = load_image_settings(folder)
    content = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    configuration = json.dumps(_without_notes(content), sort_keys=True)
    images = DualEncoderImages(
        folder.name,
        network.vision_model,
        getattr(network, "visual_projection", nn.Identity()),
        _preprocess(stored, network.config.vision_config, processor, crops),
        f"{json.dumps(stored, sort_keys=True)} {configuration}",
    )
    texts = DualEncoderTexts(
        folder.name,
        network.text_model,
        getattr(network, "text_projection", nn.Identity()),
        load_tokenizer(folder),
        prompts,
        ignores_padding=kind == "clip",
        configuration=configuration,
    )
    return DualEncoderParts(images, texts, float(network.logit_scale.detach().exp()))


def _preprocess(stored: dict[str, Any], vision: Any, processor: Any, crops: int) -> ViewPreprocess:
    """What the processor does, for the resolution of files and for the visible part of an image."""
    if hasattr(processor, "max_num_patches"):  # SigLIP 2 keeps the proportions, so it sees all
        size = processor.patch_size * math.isqrt(processor.max_num_patches)
        return ViewPreprocess(size, "squash", crops=crops, processor=processor)
    read = preprocess_from(stored, vision.image_size, None)
    return ViewPreprocess(**vars(read), crops=crops, processor=processor)


def _without_notes(content: dict[str, Any]) -> dict[str, Any]:
    return {
        name: _without_notes(value) if isinstance(value, dict) else value
        for name, value in content.items()
        if name not in NOTES
    }
