"""A model's two encoders as ONNX files, for programs that have no torch.

    images.onnx       pixels (batch, 3, size, size) -> sets (batch, K, D)
    texts.onnx        ids and mask (batch, tokens) -> sets (batch, K, D)
    about.json        how pictures become pixels and texts ids, K, D, alpha, the fingerprint
    tokenizer.json or vocabulary.json

Network, features and sets are in one file each, in float32. Both are run by onnxruntime before
they count as written, and have to agree with torch. Sets are compared as everywhere: smooth-Chamfer
is a few lines in any language and is not part of the files.
"""

from __future__ import annotations

import json
import logging
import os
import shutil
import tempfile
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Any

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from diverset.data.files import write_durably
from diverset.data.vocabulary import END, PAD, START, UNK
from diverset.encoder import Encoder
from diverset.errors import CheckpointError, DataError, OptionError, import_extra
from diverset.inputs import evaluation_mode
from diverset.model import Model
from diverset.types import Padded

FORMAT = 1
IMAGES, TEXTS, ABOUT = "images.onnx", "texts.onnx", "about.json"
TOKENIZER, VOCABULARY = "tokenizer.json", "vocabulary.json"
TOLERANCE = 1e-4
"""How far a number of a set may be from torch's; elements have length 1."""
OPSET = 20


class PictureSide(nn.Module):
    """Pixels to sets: a network, where it is not part of the encoder, and the encoder."""

    def __init__(self, network: nn.Module | None, encoder: Encoder) -> None:
        super().__init__()
        self.network, self.encoder = network, encoder

    def forward(
        self, pixels: Float[Tensor, "batch 3 height width"]
    ) -> Float[Tensor, "batch slots dim"]:
        found = pixels if self.network is None else self.network(pixels)
        sets: Tensor = self.encoder(found).elements
        return sets


class TextSide(nn.Module):
    """Token or word ids to sets."""

    def __init__(self, network: nn.Module | None, encoder: Encoder) -> None:
        super().__init__()
        self.network, self.encoder = network, encoder

    def forward(
        self, ids: Int[Tensor, "batch tokens"], mask: Bool[Tensor, "batch tokens"]
    ) -> Float[Tensor, "batch slots dim"]:
        tokens = Padded(ids, mask)
        sets: Tensor = self.encoder(
            tokens if self.network is None else self.network(tokens)
        ).elements
        return sets


def export_onnx(model: Model, folder: str | Path) -> dict[str, Any]:
    """Write both encoders; returns what about.json says.

    Args:
        model: one that reads pictures, with sets of one size.
        folder: one that is not there, or empty.
    """
    for name in ("onnx", "onnxscript", "onnxruntime"):
        import_extra(name, "onnx")
    _check(model)
    target = Path(folder)
    if target.exists() and (not target.is_dir() or any(target.iterdir())):
        raise DataError(f"{target} is not empty; give a folder that is not there yet")
    target.parent.mkdir(parents=True, exist_ok=True)
    # Beside it first: a model that cannot be written leaves nothing half done.
    with tempfile.TemporaryDirectory(dir=target.parent, prefix=f".{target.name}-") as base:
        part = Path(base) / target.name
        part.mkdir()
        about = _write_all(model, part)
        os.replace(part, target)
    return about


def _write_all(model: Model, target: Path) -> dict[str, Any]:
    with evaluation_mode(model):
        images = _write(_picture_side(model), _pixels(model), target / IMAGES)
        texts = _write(_text_side(model), _ids(model), target / TEXTS)
    about = {
        "format": FORMAT,
        "fingerprint": model.fingerprint(),
        "dim": model.architecture.dim,
        "similarity": {
            "kind": model.architecture.similarity.kind,
            "alpha": model.architecture.similarity.alpha,
        },
        "images": {**images, "slots": model.architecture.image_set.size, **_preprocessing(model)},
        "texts": {
            **texts,
            "slots": model.architecture.text_set.size,
            "tokenizer": _tokenizer(model, target),
        },
    }
    write_durably(target / ABOUT, (json.dumps(about, indent=2) + "\n").encode())
    return about


def _check(model: Model) -> None:
    chosen = model.architecture
    if chosen.image.kind != "convolution" or not chosen.image.backbone:
        raise OptionError(
            f"this model reads {chosen.image.kind} that something else has extracted, so there is "
            "no picture encoder to write; take a model with image.backbone"
        )
    if not model.has_sets:
        raise OptionError(
            "this model compares all local features (set.kind local) and has no sets to give; "
            "ONNX files are for models with sets of one size"
        )
    for side, sets in (("image_set", chosen.image_set), ("text_set", chosen.text_set)):
        if sets.kind == "slots" and sets.initial == "random":
            raise OptionError(
                f"{side}.initial is random: the same input gives another set every time, which no "
                "file can be checked against; train with initial learned"
            )
    for side, pooling in (("image", chosen.image.pooling), ("text", chosen.text.pooling)):
        if pooling == "gpo":
            raise OptionError(
                f"{side}.pooling is gpo, whose sorting by length ONNX cannot trace; "
                "max, average and last can be written"
            )


def _picture_side(model: Model) -> PictureSide:
    network = model.picture_network()
    below = None if network is model.image_encoder.backbone else network
    return PictureSide(below, model.image_encoder).eval()


def _text_side(model: Model) -> TextSide:
    if not model.architecture.text.backbone:
        return TextSide(None, model.text_encoder).eval()
    network = model.text_network()
    below = None if network is model.text_encoder.backbone else network
    return TextSide(below, model.text_encoder).eval()


def _pixels(model: Model) -> dict[str, Tensor]:
    """Three noisy pictures; two of them are traced."""
    size = model.picture_network().preprocess.size
    noise = torch.Generator().manual_seed(0)
    return {"pixels": torch.randn(3, 3, size, size, generator=noise).to(model.device)}


def _ids(model: Model) -> dict[str, Tensor]:
    """Three texts of different lengths, so that padding is part of what is checked."""
    texts = ["a dog", "two people on a beach with a red kite", "snow"]
    if model.architecture.text.backbone:
        tokens = model.text_network().tokenize(texts)
    elif model.vocabulary is not None:
        tokens = Padded.of([torch.tensor(model.vocabulary.encode(one)) for one in texts])
    else:
        raise OptionError("this model has no vocabulary to read texts with; load it with its own")
    return {"ids": tokens.values.to(model.device), "mask": tokens.mask.to(model.device)}


def _write(side: nn.Module, inputs: dict[str, Tensor], file: Path) -> dict[str, Any]:
    """One file: traced on two items, checked on three."""
    length = torch.export.Dim.DYNAMIC
    axes = {
        name: {0: length} if one.ndim == 4 else {0: length, 1: length}
        for name, one in inputs.items()
    }
    example = tuple(one[:2] for one in inputs.values())
    try:
        with _quiet():
            torch.onnx.export(
                side,
                example,
                str(file),
                input_names=list(inputs),
                output_names=["sets"],
                opset_version=OPSET,
                dynamic_shapes=tuple(axes.values()),
                external_data=False,
                dynamo=True,
                verbose=False,
            )
    except torch.onnx.OnnxExporterError as error:
        reason = next((line for line in str(error).splitlines() if line.strip()), repr(error))
        raise OptionError(
            f"a network of this model cannot be traced into {file.name} ({reason}); those that "
            "install with diverset[backbones] can"
        ) from error
    return {"file": file.name, "inputs": _described(inputs), **_checked(side, inputs, file)}


def _checked(side: nn.Module, inputs: dict[str, Tensor], file: Path) -> dict[str, Any]:
    """Run a file by onnxruntime: more items than were traced, and one alone without padding."""
    runtime = import_extra("onnxruntime", "onnx")
    session = runtime.InferenceSession(str(file), providers=["CPUExecutionProvider"])
    wrong = 0.0
    alone = {name: one[:1] for name, one in inputs.items()}
    if "mask" in alone:
        length = int(alone["mask"].sum())
        alone = {name: one[:, :length] for name, one in alone.items()}
    for some in (inputs, alone):
        with torch.no_grad():
            wanted = side(*some.values()).cpu()
        found = torch.from_numpy(
            session.run(["sets"], {name: one.cpu().numpy() for name, one in some.items()})[0]
        )
        if found.shape != wanted.shape:
            raise CheckpointError(
                f"{file.name} gives {tuple(found.shape)}, torch {tuple(wanted.shape)}; the file is "
                "wrong, use another version of onnxscript"
            )
        wrong = max(wrong, float((found - wanted).abs().max()))
    if not wrong <= TOLERANCE:
        raise CheckpointError(
            f"sets by {file.name} are off by {wrong:.1e}, {TOLERANCE:g} is allowed; the file is "
            "wrong, use another version of onnxscript or onnxruntime"
        )
    return {"largest_difference": wrong, "checked_with": f"onnxruntime {runtime.__version__}"}


def _described(inputs: dict[str, Tensor]) -> dict[str, Any]:
    found = {}
    for name, one in inputs.items():
        shape: list[int | str] = ["batch", *one.shape[1:]]
        if one.ndim == 2:
            shape[1] = "tokens"
        found[name] = {"type": str(one.dtype).removeprefix("torch."), "shape": shape}
    return found


def _preprocessing(model: Model) -> dict[str, Any]:
    network = model.picture_network()
    return {"network": network.name, "preprocess": {"mode": "RGB", **asdict(network.preprocess)}}


def _tokenizer(model: Model, target: Path) -> dict[str, Any]:
    """What turns texts into ids, with the file it needs beside the others."""
    if not model.architecture.text.backbone:
        assert model.vocabulary is not None
        model.vocabulary.save(target / VOCABULARY)
        special = {"pad": PAD, "start": START, "end": END, "unknown": UNK}
        return {"kind": "words", "file": VOCABULARY, **special}
    network: Any = model.text_network()
    found = {"network": network.name, "max_length": network.max_length, "pad": PAD}
    source = getattr(network.tokenizer, "file", None)  # ours; one of transformers writes a folder
    if source:
        shutil.copyfile(source, target / TOKENIZER)
        return {"kind": "tokenizers", "file": TOKENIZER, **found}
    network.tokenizer.save_pretrained(str(target / "tokenizer"))
    return {"kind": "transformers", "file": "tokenizer", **found}


@contextmanager
def _quiet() -> Iterator[None]:
    """Without the exporter's remarks about itself, which a user cannot act on."""
    logs = [logging.getLogger(name) for name in ("torch.onnx", "onnxscript", "onnx_ir")]
    before = [log.level for log in logs]
    for log in logs:
        log.setLevel(logging.ERROR)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        for log, level in zip(logs, before, strict=True):
            log.setLevel(level)
