"""Export both encoders of a model as ONNX files, for programs without torch.

    images.onnx       pixels (batch, 3, size, size) -> sets (batch, K, D)
    texts.onnx        ids and mask (batch, tokens) -> sets (batch, K, D)
    export.json       preprocessing, tokenizer, K, D, alpha, fingerprint of the model
    tokenizer.json or vocabulary.json

Each file contains backbone, features and sets in float32. Both files are run by onnxruntime and
compared with torch before the folder is written. The similarity is not part of the files.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from dataclasses import asdict
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from diverset.config import PRECOMPUTED
from diverset.data.vocabulary import END, PAD, START, UNK
from diverset.errors import DataError, OptionError, import_extra
from diverset.model.encoder import evaluation_mode
from diverset.model.model import Model
from diverset.model.onnx_file import EncoderGraph, write_onnx
from diverset.runtime.files import write_json
from diverset.types import Padded

FORMAT = 2
IMAGES, TEXTS, EXPORT = "images.onnx", "texts.onnx", "export.json"
TOKENIZER, VOCABULARY = "tokenizer.json", "vocabulary.json"
EXAMPLES = ("a dog", "two people on a beach with a red kite", "snow")  # of different lengths


def export_onnx(model: Model, folder: str | Path) -> dict[str, Any]:
    """Write both encoders; returns the content of export.json.

    Args:
        model: one with an image backbone and sets of one size.
        folder: a new or empty folder.
    """
    for name in ("onnx", "onnxscript", "onnxruntime"):
        import_extra(name, "onnx")
    _check_exportable(model)
    target = Path(folder)
    if target.exists() and (not target.is_dir() or any(target.iterdir())):
        raise DataError(f"{target} is not empty; give a new folder")
    target.parent.mkdir(parents=True, exist_ok=True)
    # In a temporary folder first: a failed export leaves nothing behind.
    with tempfile.TemporaryDirectory(dir=target.parent, prefix=f".{target.name}-") as temporary:
        part = Path(temporary) / target.name
        part.mkdir()
        description = _write_files(model, part)
        os.replace(part, target)
    return description


def _check_exportable(model: Model) -> None:
    config = model.config
    if config.image.kind != "convolution" or config.image.backbone is None:
        raise OptionError(
            f"this model reads extracted {config.image.kind}, so there is no image encoder to "
            "export; use a model with image.backbone"
        )
    if not model.has_sets:
        raise OptionError(
            "this model compares all local features (set.kind local); only models with sets of "
            "one size can be exported"
        )
    if config.image_set.kind == PRECOMPUTED:
        raise OptionError(
            "CLIP and SigLIP models are exported by the library they come from: Hugging Face's "
            "optimum; only models with trained sets are exported here"
        )
    if config.image.graph is not None:
        raise OptionError(
            f"image.graph is {config.image.graph} (VSRN), whose GRU over regions cannot be traced; "
            "only models without a graph can be exported"
        )
    for side, sets in (("image_set", config.image_set), ("text_set", config.text_set)):
        if sets.kind == "slots" and sets.initial == "random":
            raise OptionError(
                f"{side}.initial is random, so the same input gives another set every time and an "
                "export cannot be verified; train with initial learned"
            )
    for side, pooling in (("image", config.image.pooling), ("text", config.text.pooling)):
        if pooling == "gpo":
            raise OptionError(
                f"{side}.pooling is gpo, whose sorting by length cannot be traced; use max, "
                "average or last"
            )
    if config.text.backbone is None and model.vocabulary is None:
        raise OptionError("this model has no vocabulary to read texts with; load it with its own")


def _write_files(model: Model, folder: Path) -> dict[str, Any]:
    config, backbone = model.config, model.image_backbone()
    frozen_text = model.frozen_backbone("text") if config.text.backbone else None
    image_graph = EncoderGraph(model.frozen_backbone("image"), model.image_encoder)
    text_graph = EncoderGraph(frozen_text, model.text_encoder)
    with evaluation_mode(model):
        images = write_onnx(image_graph, _example_pixels(model), folder / IMAGES)
        texts = write_onnx(text_graph, _example_tokens(model), folder / TEXTS)
    description = {
        "format": FORMAT,
        "fingerprint": model.fingerprint(),
        "dim": config.dim,
        "similarity": {"kind": config.similarity.kind, "alpha": config.similarity.alpha},
        "images": {
            **images,
            "slots": config.image_set.size,
            "network": backbone.name,
            "preprocess": {"mode": "RGB", **asdict(backbone.preprocess)},
        },
        "texts": {
            **texts,
            "slots": config.text_set.size,
            "tokenizer": _write_tokenizer(model, folder),
        },
    }
    write_json(folder / EXPORT, description)
    return description


def _example_pixels(model: Model) -> dict[str, Tensor]:
    size = model.image_backbone().preprocess.size
    generator = torch.Generator().manual_seed(0)
    return {"pixels": torch.randn(3, 3, size, size, generator=generator).to(model.device)}


def _example_tokens(model: Model) -> dict[str, Tensor]:
    if model.vocabulary is None or model.config.text.backbone is not None:
        tokens = model.text_backbone().tokenize(EXAMPLES)
    else:
        tokens = Padded.of([torch.tensor(model.vocabulary.encode(text)) for text in EXAMPLES])
    return {"ids": tokens.values.to(model.device), "mask": tokens.mask.to(model.device)}


def _write_tokenizer(model: Model, folder: Path) -> dict[str, Any]:
    """Write the file that turns texts into ids; returns its description."""
    if model.vocabulary is not None and model.config.text.backbone is None:
        model.vocabulary.save(folder / VOCABULARY)
        special = {"pad": PAD, "start": START, "end": END, "unknown": UNK}
        return {"kind": "words", "file": VOCABULARY, **special}
    backbone: Any = model.text_backbone()
    options = {"network": backbone.name, "max_length": backbone.max_length, "pad": PAD}
    source = getattr(backbone.tokenizer, "file", None)  # that of transformers writes a folder
    if source:
        shutil.copyfile(source, folder / TOKENIZER)
        return {"kind": "tokenizers", "file": TOKENIZER, **options}
    backbone.tokenizer.save_pretrained(str(folder / "tokenizer"))
    return {"kind": "transformers", "file": "tokenizer", **options}
