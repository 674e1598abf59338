"""What losses read about a batch besides its sets.

Caption similarity and teachers' scores come from models that are not trained here: a frozen text
backbone, and the best models of finished runs. They are applied once to the training split; the
results are cached in float16. Related texts come from the words of captions and labels.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from jaxtyping import Bool, Float, Int
from safetensors.torch import load_file, save
from torch import Tensor
from torch.nn import functional as F

from diverset.backbones import cache_texts, load_text_backbone
from diverset.data.dataset import CaptionDataset
from diverset.data.vocabulary import Vocabulary
from diverset.errors import OptionError
from diverset.evaluation import Member
from diverset.evaluation.open_run import open_run
from diverset.recipe.config import DataConfig, Recipe
from diverset.recipe.encode import encode_split
from diverset.recipe.splits import SplitData, open_split, task_progress
from diverset.runtime.files import write_durably
from diverset.runtime.progress import ProgressCallback
from diverset.similarity import similarity_matrix
from diverset.training.related_texts import RelatedTexts

MAX_SHORT_WORDS = 4


@dataclass(frozen=True)
class BatchTargets:
    """Targets of one batch; None where the recipe does not use them.

    Attributes:
        caption_similarity: cosines between captions by a frozen backbone.
        teacher_scores: mean similarity of images and captions by the teachers.
        related: True where a text describes an image, whether or not it is its own.
        is_long: True for texts that take part in the triplet loss; a short text matches many
            images, so that its hardest negative is often correct.
        captions: ids of every caption from start to end, to be generated.
    """

    caption_similarity: Float[Tensor, "texts texts"] | None = None
    teacher_scores: Float[Tensor, "images texts"] | None = None
    related: Bool[Tensor, "images texts"] | None = None
    is_long: Bool[Tensor, " texts"] | None = None
    captions: Sequence[list[int]] | None = None


@dataclass(frozen=True)
class AuxiliaryTargets:
    """Targets of the whole training split.

    Attributes:
        caption_vectors: normalised vectors of all captions.
        teachers: sets of all images and captions by each teacher.
        related_texts: which images a text describes.
        is_long: True for texts of more than four words.
        captions: ids of every text from start to end.
        vocabulary_size: number of words in the vocabulary of `captions`.
    """

    caption_vectors: Float[Tensor, "texts width"] | None = None
    teachers: Sequence[Member] = field(default_factory=tuple)
    related_texts: RelatedTexts | None = None
    is_long: Bool[Tensor, " texts"] | None = None
    captions: Sequence[list[int]] | None = None
    vocabulary_size: int = 0

    @torch.no_grad()
    def of_batch(
        self, images: Int[Tensor, " images"], texts: Int[Tensor, " texts"]
    ) -> BatchTargets:
        """The targets of a batch of these rows of the split."""
        targets: dict[str, Any] = {}
        if self.caption_vectors is not None:
            vectors = self.caption_vectors[texts.cpu()].to(texts.device, torch.float32)
            targets["caption_similarity"] = vectors @ vectors.T
        if self.teachers:
            scores = [_scores(teacher, images, texts) for teacher in self.teachers]
            targets["teacher_scores"] = torch.stack(scores).mean(dim=0)
        if self.related_texts is not None:
            targets["related"] = self.related_texts.of_batch(images, texts)
        if self.is_long is not None:
            targets["is_long"] = self.is_long[texts.cpu()].to(texts.device)
        if self.captions is not None:
            targets["captions"] = [self.captions[row] for row in texts.tolist()]
        return BatchTargets(**targets)


def _scores(teacher: Member, images: Tensor, texts: Tensor) -> Tensor:
    image_sets, text_sets = (
        F.normalize(sets[rows.cpu()].to(rows.device, torch.float32), dim=-1)
        for sets, rows in ((teacher.images, images), (teacher.texts, texts))
    )
    return similarity_matrix(image_sets, text_sets, teacher.similarity, **teacher.options)


def open_auxiliary_targets(
    recipe: Recipe, split: SplitData, cache: Path, progress: ProgressCallback | None = None
) -> AuxiliaryTargets:
    """The targets that the recipe's losses need for its training split."""
    targets: dict[str, Any] = {}
    loss, texts = recipe.loss, split.all_texts
    if loss.soft_labels:
        targets["caption_vectors"] = caption_vectors(texts, loss.soft_backbone, cache, progress)
    runs = [run.strip() for run in (recipe.distill.runs or "").split(",") if run.strip()]
    teachers = [open_teacher(run, recipe.data, split.dataset, cache, progress) for run in runs]
    if loss.mask_related:
        targets["related_texts"] = RelatedTexts(split.dataset, texts)
    if loss.mask_related or recipe.data.short_texts:
        targets["is_long"] = torch.tensor([len(text.split()) > MAX_SHORT_WORDS for text in texts])
    if loss.captioning:
        # Not the ids that the text encoder reads: those are augmented, or another network's tokens.
        vocabulary = Vocabulary.build(split.dataset.captions, recipe.data.min_count)
        targets["captions"] = [vocabulary.encode(text) for text in texts]
        targets["vocabulary_size"] = len(vocabulary)
    return AuxiliaryTargets(teachers=teachers, **targets)


def caption_vectors(
    texts: Sequence[str], backbone: str, cache: Path, progress: ProgressCallback | None = None
) -> Float[Tensor, "texts width"]:
    """The normalised mean of every caption's token states by a frozen backbone."""
    states = cache_texts(
        load_text_backbone(backbone),
        texts,
        cache,
        progress=task_progress(progress, "states for soft labels"),
    )
    means = torch.stack([states[row].mean(dim=0) for row in range(len(states))])
    return F.normalize(means, dim=-1).half()


def open_teacher(
    run: str,
    data: DataConfig,
    dataset: CaptionDataset,
    cache: Path,
    progress: ProgressCallback | None = None,
) -> Member:
    """The sets of the training split by a finished run's best model, without augmentation."""
    model, _ = open_run(run)
    content = [model.fingerprint(), list(dataset.image_ids), list(dataset.captions)]
    digest = hashlib.sha256(json.dumps(content).encode()).hexdigest()[:16]
    file = cache / f"teacher-{digest}.safetensors"
    if not file.exists():
        split = open_split(data, data.train, model, cache, progress=progress)
        if split.dataset.captions != dataset.captions:
            raise OptionError(
                f"{run} reads other captions of {data.train}; give a run on this data"
            )
        sets = encode_split(model, split, progress=task_progress(progress, f"teacher {run}"))
        images, texts = (part.half().contiguous() for part in sets)
        cache.mkdir(parents=True, exist_ok=True)
        write_durably(file, save({"images": images, "texts": texts}))
    stored = load_file(file)
    return Member(stored["images"], stored["texts"], *model.own_similarity())
