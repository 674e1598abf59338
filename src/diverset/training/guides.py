"""What losses may know of a batch beside its sets: how alike captions are, what teachers say.

Both come from models that are not trained here: a frozen text network, and the best models of
finished runs. They are applied once to the plain training split and kept, in float16.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import torch
from jaxtyping import Float, Int
from safetensors.torch import load_file, save
from torch import Tensor
from torch.nn import functional as F

from diverset.backbones import cache_texts, load_text_backbone
from diverset.data.collection import Collection
from diverset.data.files import write_durably
from diverset.errors import OptionError
from diverset.evaluation import Member
from diverset.model import Model
from diverset.similarity import similarity_matrix
from diverset.training.encoding import encode_split
from diverset.training.evaluating import open_run
from diverset.training.opening import Progress, named, open_split
from diverset.training.settings import DataConfig, Recipe


@dataclass(frozen=True)
class Hints:
    """About one batch.

    Attributes:
        alike: cosines between its captions by a frozen network.
        taught: the mean similarity of its images and captions by teachers.
    """

    alike: Float[Tensor, "texts texts"] | None = None
    taught: Float[Tensor, "images texts"] | None = None


@dataclass(frozen=True)
class Guides:
    """About the whole training split; empty where a recipe asks for nothing of it."""

    vectors: Float[Tensor, "texts width"] | None = None
    teachers: Sequence[Member] = field(default_factory=tuple)

    @torch.no_grad()
    def of(self, images: Int[Tensor, " images"], texts: Int[Tensor, " texts"]) -> Hints:
        """For a batch of these images and captions of the split."""
        alike = taught = None
        if self.vectors is not None:
            some = self.vectors[texts.cpu()].to(texts.device, torch.float32)
            alike = some @ some.T
        if self.teachers:
            parts = [_scores(one, images, texts) for one in self.teachers]
            taught = torch.stack(parts).mean(dim=0)
        return Hints(alike, taught)


def _scores(teacher: Member, images: Tensor, texts: Tensor) -> Tensor:
    pictures, captions = (
        F.normalize(sets[places.cpu()].to(places.device, torch.float32), dim=-1)
        for sets, places in ((teacher.images, images), (teacher.texts, texts))
    )
    return similarity_matrix(pictures, captions, teacher.similarity, **teacher.options)


def open_guides(
    recipe: Recipe, collection: Collection, cache: Path, progress: Progress | None = None
) -> Guides:
    """What the recipe's losses ask for, about its training split."""
    vectors = None
    if recipe.loss.soft_labels:
        vectors = caption_vectors(collection, recipe.loss.soft_backbone, cache, progress)
    runs = [one.strip() for one in recipe.distill.runs.split(",") if one.strip()]
    teachers = [open_teacher(run, recipe.data, collection, cache, progress) for run in runs]
    return Guides(vectors, teachers)


def caption_vectors(
    collection: Collection, backbone: str, cache: Path, progress: Progress | None = None
) -> Float[Tensor, "texts width"]:
    """The normalised mean of every caption's token states by a frozen network."""
    states = cache_texts(
        load_text_backbone(backbone),
        collection.captions,
        cache,
        progress=named(progress, "states for soft labels"),
    )
    means = torch.stack([states[place].mean(dim=0) for place in range(len(states))])
    return F.normalize(means, dim=-1).half()


def open_teacher(
    run: str,
    data: DataConfig,
    collection: Collection,
    cache: Path,
    progress: Progress | None = None,
) -> Member:
    """The sets that a finished run's best model gives to the training split, without views."""
    model, _ = open_run(run)
    content = [model.fingerprint(), list(collection.image_ids), list(collection.captions)]
    digest = hashlib.sha256(json.dumps(content).encode()).hexdigest()[:16]
    file = cache / f"teacher-{digest}.safetensors"
    if not file.exists():
        sets = _encoded(run, model, data, collection, cache, progress)
        cache.mkdir(parents=True, exist_ok=True)
        write_durably(file, save({name: one.half().contiguous() for name, one in sets.items()}))
    stored = load_file(file)
    return Member(stored["images"], stored["texts"], *model.own_similarity())


def _encoded(
    run: str,
    model: Model,
    data: DataConfig,
    collection: Collection,
    cache: Path,
    progress: Progress | None,
) -> dict[str, Tensor]:
    opened = open_split(
        replace(data, views=1),
        data.train,
        model.architecture,
        model.vocabulary,
        cache,
        progress=progress,
        model=model,
    )
    if opened.collection.captions != collection.captions:
        raise OptionError(f"{run} sees other captions of {data.train}; give a run on this data")
    images, texts = encode_split(model, opened, progress=named(progress, f"teacher {run}"))
    return {"images": images, "texts": texts}
