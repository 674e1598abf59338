"""Models with their sets of the split that is evaluated."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from torch import Tensor

from diverset.config import CROSS_ATTENTION
from diverset.data import CaptionDataset
from diverset.errors import OptionError
from diverset.evaluation.elements import check_elements, select_elements
from diverset.evaluation.ensemble import Member
from diverset.evaluation.hubness import QueryBank
from diverset.evaluation.open_run import evaluated_data
from diverset.evaluation.options import EvalOptions
from diverset.evaluation.query_bank import build_query_bank, load_query_bank, save_query_bank
from diverset.model import Model
from diverset.model.folder import model_folder
from diverset.model.load import load
from diverset.recipe.config import DataConfig
from diverset.recipe.encode import encode_split
from diverset.recipe.splits import open_split
from diverset.runtime.autocast import autocast
from diverset.runtime.progress import Progress
from diverset.similarity import Similarity


@dataclass(frozen=True)
class EncodedModel:
    """A model with its sets of a split."""

    name: str
    model: Model
    member: Member
    dataset: CaptionDataset
    bank: QueryBank | None


def encode_models(
    models: Sequence[str | Model],
    options: EvalOptions,
    cache: Path,
    device: str,
    progress: Progress,
) -> list[EncodedModel]:
    """Encode one split by several models; they must read the same captions of it."""
    encoded: list[EncodedModel] = []
    for model in models:
        encoded.append(_encode(model, options, cache, device, progress))
        if encoded[-1].dataset.captions != encoded[0].dataset.captions:
            raise OptionError(
                f"{encoded[-1].name} and {encoded[0].name} read different captions; evaluate them "
                "on one split of one dataset: give --data and --split"
            )
    return encoded


def _encode(
    spec: str | Model, options: EvalOptions, cache: Path, device: str, progress: Progress
) -> EncodedModel:
    data = evaluated_data(spec, options)  # before the model is loaded: paths are often wrong
    model = load(spec, device) if isinstance(spec, str) else spec
    _check_elements(model, options)
    split = open_split(data, options.split or data.val, model, cache, progress=progress.update)
    encoding = progress.task("encoding")
    images, texts = encode_split(model, split, progress=encoding, precision=options.precision)
    images = select_elements(images, options.image_elements)
    texts = select_elements(texts, options.text_elements)
    member = Member(images, texts, *_similarity(model, options))
    bank = _query_bank(spec, model, data, options, cache, progress) if options.hubness else None
    name = spec if isinstance(spec, str) else model.fingerprint()
    return EncodedModel(name, model, member, split.dataset, bank)


def _check_elements(model: Model, options: EvalOptions) -> None:
    """Raise before anything is encoded if the sets lack selected elements."""
    config = model.config
    for elements, sets in (
        (options.image_elements, config.image_set),
        (options.text_elements, config.text_set),
    ):
        if elements is not None and model.has_sets:
            check_elements(elements, sets.size)


def _similarity(model: Model, options: EvalOptions) -> tuple[str | Similarity, Mapping[str, Any]]:
    if options.similarity is None and options.alpha is None:
        own, own_options = model.own_similarity()
        if isinstance(own, str) or model.config.similarity.kind not in CROSS_ATTENTION:
            return own, own_options
        return _in_precision(own, options.precision), own_options
    similarity = options.similarity or "smooth_chamfer"
    if similarity != "smooth_chamfer":
        return similarity, {}
    alpha = model.config.similarity.alpha if options.alpha is None else options.alpha
    return similarity, {"alpha": alpha}


def _in_precision(similarity: Similarity, precision: str) -> Similarity:
    """The similarity with its matrix products in this precision."""

    def score(images: Tensor, texts: Tensor, **options: Any) -> Tensor:
        with autocast(images.device, precision):
            return similarity(images, texts, **options)

    return score


def _query_bank(
    spec: str | Model,
    model: Model,
    data: DataConfig,
    options: EvalOptions,
    cache: Path,
    progress: Progress,
) -> QueryBank:
    """The query bank stored with the model, or else a new one."""
    folder = model_folder(spec) if isinstance(spec, str) else None
    bank = None if folder is None else load_query_bank(folder, model.fingerprint())
    if bank is None:
        bank = build_query_bank(model, data, cache, options.hubness or 0, progress.update)
        if options.save_bank and folder is not None:
            save_query_bank(folder, bank, model.fingerprint())
    return bank
