"""The training objective: from the embedding sets of a batch to weighted losses by name."""

from __future__ import annotations

from collections.abc import Sequence

from jaxtyping import Float, Int
from torch import Tensor, nn

from diverset.data.vocabulary import END
from diverset.errors import OptionError
from diverset.losses import (
    Captioner,
    SoftContrastive,
    caption_labels,
    captioning,
    contrastive,
    distillation,
    diversity,
    gram_diversity,
    mmd,
    off_global,
    triplet,
    variational_bottleneck,
    within_set,
)
from diverset.model import Model
from diverset.recipe.config import DistillConfig, LossConfig
from diverset.training.auxiliary_targets import BatchTargets
from diverset.types import EmbeddingSets, Gaussian, Padded

NO_TARGETS = BatchTargets()
MAX_CAPTION = 60
"""Longest caption that is generated, as published by VSRN."""


class Objective(nn.Module):
    """The losses of a recipe; a module because two of them have trainable parameters.

    Args:
        config: the losses and their weights.
        distill: temperature and weight of distillation.
        captioner: generates captions if `config.captioning` is set.
    """

    def __init__(
        self,
        config: LossConfig,
        distill: DistillConfig | None = None,
        captioner: Captioner | None = None,
    ) -> None:
        super().__init__()
        self.config, self.distill = config, distill or DistillConfig()
        self.soft = SoftContrastive() if config.kind == "soft_contrastive" else None
        self.captioner = captioner

    def forward(
        self,
        model: Model,
        images: EmbeddingSets,
        texts: EmbeddingSets,
        image_index: Int[Tensor, " texts"],
        epoch: int,
        targets: BatchTargets = NO_TARGETS,
    ) -> dict[str, Float[Tensor, ""]]:
        """All weighted losses by name; train on their sum."""
        config = self.config
        losses: dict[str, Tensor] = {}
        if self.soft is not None:
            losses |= self._pcme(self.soft, _gaussian(images), _gaussian(texts), image_index)
        else:
            alpha = annealed_alpha(epoch, model.config.similarity.alpha, config)
            scores = model.score(images.elements, texts.elements, alpha, image_index)
            losses |= self._ranking(scores, image_index, epoch, targets)
            if targets.teacher_scores is not None:
                divergence = distillation(scores, targets.teacher_scores, self.distill.temperature)
                losses["distillation"] = self.distill.weight * divergence
        if self.captioner is not None and targets.captions is not None:
            own = caption_loss(self.captioner, images, image_index, targets.captions)
            losses["captioning"] = config.captioning * own
        if config.mmd:
            losses["mmd"] = config.mmd * mmd(images.elements, texts.elements)
        for name, weight, loss in (
            ("diversity", config.diversity, lambda sets: diversity(sets.slots)),
            ("gram_diversity", config.gram_diversity, lambda sets: gram_diversity(sets.slots)),
            ("off_global", config.off_global, self._off_global),
            ("within_set", config.within_set, self._within_set),
        ):
            if weight:
                losses[name] = weight * (loss(images) + loss(texts))
        return losses

    def _pcme(
        self, soft: SoftContrastive, images: Gaussian, texts: Gaussian, image_index: Tensor
    ) -> dict[str, Tensor]:
        losses = {"match": soft(images.samples, texts.samples, image_index)}
        if self.config.bottleneck:
            bottleneck = variational_bottleneck(images) + variational_bottleneck(texts)
            losses["bottleneck"] = self.config.bottleneck * bottleneck
        return losses

    def _off_global(self, sets: EmbeddingSets) -> Tensor:
        if sets.pooled is None:
            raise OptionError(
                "loss.off_global needs sets to which a global feature is added; this model has "
                "none, so set loss.off_global to 0"
            )
        return off_global(sets.elements, sets.pooled, self.config.off_global_margin)

    def _within_set(self, sets: EmbeddingSets) -> Tensor:
        return within_set(sets.elements, self.config.within_set_margin)

    def _ranking(
        self, scores: Tensor, image_index: Tensor, epoch: int, targets: BatchTargets
    ) -> dict[str, Tensor]:
        config = self.config
        start = config.start if epoch < config.start_epochs else None
        if config.kind == "contrastive" or start == "contrastive":
            return {"contrastive": self._contrastive(scores, image_index, targets)}
        negatives = "mean" if start == "mean" else "hardest"
        losses = {"triplet": self._triplet(scores, image_index, negatives, targets)}
        if config.contrastive:
            info_nce = self._contrastive(scores, image_index, targets)
            losses["contrastive"] = config.contrastive * info_nce
        return losses

    def _triplet(
        self, scores: Tensor, image_index: Tensor, negatives: str, targets: BatchTargets
    ) -> Tensor:
        related = targets.related
        if targets.is_long is not None:
            scores, image_index = scores[:, targets.is_long], image_index[targets.is_long]
            related = None if related is None else related[:, targets.is_long]
        loss = triplet(scores, image_index, self.config.margin, negatives, related)
        return loss * scores.shape[1] if self.config.reduction == "sum" else loss

    def _contrastive(self, scores: Tensor, image_index: Tensor, targets: BatchTargets) -> Tensor:
        config = self.config
        return contrastive(
            scores,
            image_index,
            config.temperature,
            config.smoothing,
            targets.caption_similarity,
            config.soft_labels,
            config.soft_temperature,
            targets.related,
        )


def caption_loss(
    captioner: Captioner,
    images: EmbeddingSets,
    image_index: Int[Tensor, " texts"],
    captions: Sequence[list[int]],
) -> Float[Tensor, ""]:
    """How badly the captions can be generated from the local features of their images."""
    if images.features is None:
        raise OptionError("loss.captioning needs the features of images; encode them with a model")
    local, mask = images.features.local, images.features.mask
    # Steps after the longest caption and its padding would only add zeros.
    longest = min(MAX_CAPTION, max(map(len, captions)) + 1)
    labels, label_mask = caption_labels(list(captions), longest, END)
    labels, label_mask = labels.to(local.device), label_mask.to(local.device)
    regions = Padded(local[image_index], mask[image_index])
    return captioning(captioner(regions, labels), labels, label_mask)


def annealed_alpha(epoch: int, final: float, config: LossConfig) -> float | None:
    """Smooth-Chamfer's alpha in this epoch; None for the model's own.

    >>> growing = LossConfig(alpha_start=1.0, alpha_epochs=2)
    >>> [annealed_alpha(epoch, 16.0, growing) for epoch in range(4)]
    [1.0, 4.0, None, None]
    """
    if epoch >= config.alpha_epochs:
        return None
    return float(config.alpha_start * (final / config.alpha_start) ** (epoch / config.alpha_epochs))


def _gaussian(sets: EmbeddingSets) -> Gaussian:
    if sets.gaussian is None:
        raise OptionError(
            "loss.kind soft_contrastive needs samples; set image_set.kind and text_set.kind to "
            "gaussian"
        )
    return sets.gaussian
