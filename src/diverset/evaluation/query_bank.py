"""The query bank of a trained model: built from training data, stored with the weights."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
from safetensors import SafetensorError, safe_open
from safetensors.torch import save
from torch.nn import functional as F

from diverset.errors import CheckpointError, OptionError
from diverset.evaluation.ensemble import Member
from diverset.evaluation.hubness import QueryBank, choose_weight
from diverset.model import Model
from diverset.recipe.config import DataConfig
from diverset.recipe.datasets import DatasetReader
from diverset.recipe.encode import encode_split
from diverset.recipe.loaders import SubsetLoader
from diverset.recipe.splits import SplitData, open_split, task_progress
from diverset.runtime.files import write_durably
from diverset.runtime.progress import ProgressCallback

QUERY_BANK_FILE = "hubness.safetensors"
FORMAT = 1
NEIGHBOURS = 16


def build_query_bank(
    model: Model,
    data: DataConfig,
    cache: Path,
    size: int,
    progress: ProgressCallback | None = None,
) -> QueryBank:
    """Encode `size` training images and captions, drawn with a fixed seed, and choose the weight on
    the validation split."""
    if not model.has_sets:
        raise OptionError("this model compares all local features; a query bank needs sets")

    reader = DatasetReader(data)
    train, val = (
        open_split(data, split, model, cache, progress=progress, reader=reader)
        for split in (data.train, data.val)
    )
    rng = np.random.default_rng(0)
    sampled_images, sampled_texts = (
        SubsetLoader(loader, rng.choice(len(loader), min(size, len(loader)), replace=False))
        for loader in (train.images, train.texts)
    )
    images, texts = encode_split(model, SplitData(train.dataset, sampled_images, sampled_texts))
    bank = QueryBank(images, texts, min(NEIGHBOURS, len(images), len(texts)))
    sets = encode_split(model, val, progress=task_progress(progress, "encoding validation data"))
    return choose_weight(Member(*sets, *model.own_similarity()), bank, val.dataset.image_index)


def save_query_bank(folder: Path, bank: QueryBank, fingerprint: str) -> None:
    """Write a bank in float16 into the folder of the model with this fingerprint."""
    header = {
        "format": FORMAT,
        "fingerprint": fingerprint,
        "neighbours": bank.neighbours,
        "weight": bank.weight,
    }
    tensors = {"images": bank.images.half().contiguous(), "texts": bank.texts.half().contiguous()}
    write_durably(folder / QUERY_BANK_FILE, save(tensors, {"bank": json.dumps(header)}))


def load_query_bank(folder: Path, fingerprint: str) -> QueryBank | None:
    """The bank in the folder of a model; None if there is none."""
    file = folder / QUERY_BANK_FILE
    if not file.exists():
        return None
    try:
        with safe_open(file, "pt") as stored:
            header = json.loads((stored.metadata() or {}).get("bank", "{}"))
            images, texts = stored.get_tensor("images"), stored.get_tensor("texts")
    except (SafetensorError, ValueError) as error:
        raise CheckpointError(
            f"{file} is damaged ({error}); delete it and build it again"
        ) from error
    if header.get("format") != FORMAT or header.get("fingerprint") != fingerprint:
        raise CheckpointError(
            f"{file} is a query bank of the model {header.get('fingerprint')}, format "
            f"{header.get('format')}; the model here is {fingerprint}: delete it and build it again"
        )
    images, texts = (F.normalize(sets.float(), dim=-1) for sets in (images, texts))
    return QueryBank(images, texts, int(header["neighbours"]), float(header["weight"]))
