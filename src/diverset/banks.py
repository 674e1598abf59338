"""A bank of training queries as a file beside a model's weights, in float16."""

from __future__ import annotations

import json
from pathlib import Path

from safetensors import SafetensorError, safe_open
from safetensors.torch import save
from torch.nn import functional as F

from diverset.data.files import write_durably
from diverset.errors import CheckpointError
from diverset.evaluation.hubness import Bank

BANK = "hubness.safetensors"
FORMAT = 1


def save_bank(folder: Path, bank: Bank, fingerprint: str) -> None:
    """Write a bank into a model's folder; it carries the fingerprint of the model it is of."""
    about = {
        "format": FORMAT,
        "fingerprint": fingerprint,
        "neighbours": bank.neighbours,
        "weight": bank.weight,
    }
    tensors = {
        "images": bank.images.half().contiguous(),
        "texts": bank.texts.half().contiguous(),
    }
    write_durably(folder / BANK, save(tensors, {"bank": json.dumps(about)}))


def load_bank(folder: Path, fingerprint: str) -> Bank | None:
    """The bank in a model's folder; None where there is none."""
    file = folder / BANK
    if not file.exists():
        return None
    try:
        with safe_open(file, "pt") as stored:
            about = json.loads((stored.metadata() or {}).get("bank", "{}"))
            images, texts = stored.get_tensor("images"), stored.get_tensor("texts")
    except (SafetensorError, ValueError) as error:
        raise CheckpointError(
            f"{file} is damaged ({error}); delete it and make it again"
        ) from error
    if about.get("format") != FORMAT or about.get("fingerprint") != fingerprint:
        raise CheckpointError(
            f"{file} is a bank of the model {about.get('fingerprint')}, format "
            f"{about.get('format')}; the model here is {fingerprint}: delete it and make it again"
        )
    images, texts = (F.normalize(sets.float(), dim=-1) for sets in (images, texts))
    return Bank(images, texts, int(about["neighbours"]), float(about["weight"]))
