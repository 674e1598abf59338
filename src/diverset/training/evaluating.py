"""Evaluating runs: their best models on a split, one by one or as an ensemble."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from diverset.banks import load_bank, save_bank
from diverset.data import Collection
from diverset.errors import CheckpointError, DataError, OptionError
from diverset.evaluation import (
    Bank,
    Member,
    Report,
    cxc_recalls,
    eccv_scores,
    evaluate_corrected,
    evaluate_ensemble,
    evaluate_sets,
    in_percent,
    read_cxc,
    select_elements,
    top_ranked,
)
from diverset.evaluation.hubness import summary
from diverset.loading import NAMES, model_folder
from diverset.model import Model
from diverset.pretrained import CONFIG
from diverset.training.bars import Bars
from diverset.training.encoding import encode_split
from diverset.training.hubness import make_bank
from diverset.training.opening import open_split
from diverset.training.run import MODEL, RECIPE, read_recipe
from diverset.training.settings import DataConfig, Recipe


@dataclass(frozen=True)
class Asked:
    """What to evaluate and how; the defaults are a run's own."""

    root: str = ""
    """Folder of the data, if it has moved since the training."""
    split: str = ""
    """Name of the split; the validation split by default."""
    protocol: str = "full"
    """A name in `diverset.evaluation.PROTOCOLS`."""
    similarity: str = ""
    """A similarity in place of the model's own."""
    alpha: float = 0.0
    """Of smooth-Chamfer, in place of the model's own."""
    image_elements: Sequence[int] | None = None
    """Only these elements of the image sets, counted from 0."""
    text_elements: Sequence[int] | None = None
    eccv: bool = False
    """Also ECCV Caption, CxC and COCO 5K by the package eccv_caption; COCO's test split only."""
    cxc: str = ""
    """Also CxC from this folder of annotations."""
    precision: str = "float32"
    """In which features and sets are computed: "float32" or "bfloat16"."""
    hubness: int = 0
    """Also with hubness correction, by the bank stored with the model, or else by one of this many
    training images and captions, with a weight chosen on the validation split; 0 without."""
    save_bank: bool = False
    """Store the bank with the model."""


def evaluate(
    runs: Sequence[str], asked: Asked | None = None, *, cache: Path, device: str = "cpu"
) -> Report:
    """Evaluate one run, or several as an ensemble by their mean similarity."""
    asked = asked or Asked()
    if not runs:
        raise OptionError("no run to evaluate; give the folder of at least one")
    encoded = []
    with Bars() as bars:
        for name in runs:
            encoded.append(_encode(name, asked, cache, device, bars))
            if encoded[-1].collection.captions != encoded[0].collection.captions:
                raise OptionError(f"{name} was opened on other data than {runs[0]}; give one split")
    collection = encoded[0].collection
    members = [one.member for one in encoded]
    extras: dict[str, Any] = {"data": collection.name, "runs": list(runs)}
    if asked.hubness:
        banks = [one.bank for one in encoded if one.bank is not None]
        corrected = evaluate_corrected(members, banks, collection.owners, asked.protocol)
        extras["with hubness correction"] = summary(corrected, banks)
    if asked.eccv:
        if collection.caption_ids is None:
            raise DataError(f"{collection.name} has no caption ids, which ECCV Caption needs")
        scores = eccv_scores(members, collection.image_ids, collection.caption_ids)
        extras["ECCV Caption, CxC, COCO 5K (percent)"] = in_percent(scores)
    if asked.cxc:
        extras["CxC (percent)"] = cxc_recalls(top_ranked(members), read_cxc(asked.cxc))
    if len(members) > 1:
        return evaluate_ensemble(members, collection.owners, asked.protocol, extras=extras)
    only = members[0]
    return evaluate_sets(
        only.images,
        only.texts,
        collection.owners,
        only.similarity,
        asked.protocol,
        health=encoded[0].has_sets,
        extras=extras,
        **only.options,
    )


def open_run(name: str, device: str = "cpu") -> tuple[Model, DataConfig]:
    """The best model of a run, or a model with its recipe beside it, and the data to read."""
    data = open_recipe(name).data
    return Model.from_pretrained(model_folder(name), device), data


def open_recipe(name: str) -> Recipe:
    """The recipe of a run, of a model that was exported from one, or of a shipped model."""
    folder = Path(name) if Path(name).exists() or name not in NAMES else model_folder(name)
    if not (folder / RECIPE).exists():
        hint = "it is a model without its data" if (folder / CONFIG).exists() else "no run is there"
        raise CheckpointError(f"{folder} has no {RECIPE} ({hint}); give the folder of a run")
    if not ((folder / MODEL / CONFIG).exists() or (folder / CONFIG).exists()):
        raise CheckpointError(f"{folder} has no model yet; let it train for one epoch at least")
    return read_recipe(folder / RECIPE)


def default_cache() -> Path:
    """Where features of frozen networks are kept unless a folder is given."""
    base = os.environ.get("XDG_CACHE_HOME") or str(Path.home() / ".cache")
    return Path(base) / "diverset"


@dataclass(frozen=True)
class _Encoded:
    member: Member
    collection: Collection
    has_sets: bool
    bank: Bank | None


def _encode(name: str, asked: Asked, cache: Path, device: str, bars: Bars) -> _Encoded:
    model, data = open_run(name, device)
    if asked.root:
        data = replace(data, root=asked.root)
    opened = open_split(
        data,
        asked.split or data.val,
        model.architecture,
        model.vocabulary,
        cache,
        progress=bars.show,
        model=model,
    )
    images, texts = encode_split(
        model,
        opened,
        progress=lambda done, total: bars.show("encoding", done, total),
        precision=asked.precision,
    )
    if asked.image_elements is not None:
        images = select_elements(images, asked.image_elements)
    if asked.text_elements is not None:
        texts = select_elements(texts, asked.text_elements)
    member = Member(images, texts, *model.own_similarity())
    if asked.similarity or asked.alpha:
        kind = asked.similarity or "smooth_chamfer"
        options = {"alpha": asked.alpha or 16.0} if kind == "smooth_chamfer" else {}
        member = Member(images, texts, kind, options)
    bank = _bank(name, model, data, asked, cache, bars) if asked.hubness else None
    return _Encoded(member, opened.collection, model.has_sets, bank)


def _bank(name: str, model: Model, data: DataConfig, asked: Asked, cache: Path, bars: Bars) -> Bank:
    """The bank that is stored with the model, or else a new one."""
    folder = model_folder(name)
    found = load_bank(folder, model.fingerprint())
    if found is None:
        found = make_bank(model, data, cache, asked.hubness, bars.show)
        if asked.save_bank:
            save_bank(folder, found, model.fingerprint())
    return found
