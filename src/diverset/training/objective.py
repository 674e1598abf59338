"""From the sets of a batch to one number to minimise, with its parts for the log."""

from __future__ import annotations

from jaxtyping import Float, Int
from torch import Tensor, nn

from diverset.errors import OptionError
from diverset.losses import (
    SoftContrastive,
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
from diverset.training.guides import Hints
from diverset.training.settings import DistillConfig, LossConfig
from diverset.types import EmbeddingSets, Gaussian

NO_HINTS = Hints()


class Objective(nn.Module):
    """The loss of a recipe; a module because PCME's has trained numbers of its own."""

    def __init__(self, chosen: LossConfig, distill: DistillConfig | None = None) -> None:
        super().__init__()
        self.chosen, self.distill = chosen, distill or DistillConfig()
        self.soft = SoftContrastive() if chosen.kind == "soft_contrastive" else None

    def forward(
        self,
        model: Model,
        images: EmbeddingSets,
        texts: EmbeddingSets,
        owners: Int[Tensor, " texts"],
        epoch: int,
        hints: Hints = NO_HINTS,
    ) -> dict[str, Float[Tensor, ""]]:
        """All weighted parts by name; train on their sum."""
        chosen = self.chosen
        parts: dict[str, Tensor] = {}
        if self.soft is not None:
            drawn, drawn_texts = _gaussian(images), _gaussian(texts)
            parts["match"] = self.soft(drawn.samples, drawn_texts.samples, owners)
            if chosen.bottleneck:
                spread = variational_bottleneck(drawn) + variational_bottleneck(drawn_texts)
                parts["bottleneck"] = chosen.bottleneck * spread
        else:
            alpha = annealed_alpha(epoch, model.architecture.similarity.alpha, chosen)
            scores = model.score(images.elements, texts.elements, alpha)
            parts |= self._ranking(scores, owners, epoch, hints.alike)
            if hints.taught is not None:
                apart = distillation(scores, hints.taught, self.distill.temperature)
                parts["distillation"] = self.distill.weight * apart
        if chosen.mmd:
            parts["mmd"] = chosen.mmd * mmd(images.elements, texts.elements)
        for name, weight, loss in (
            ("diversity", chosen.diversity, diversity),
            ("gram_diversity", chosen.gram_diversity, gram_diversity),
        ):
            if weight:
                parts[name] = weight * (loss(images.slots) + loss(texts.slots))
        return parts | self._max_match(images, texts)

    def _max_match(self, images: EmbeddingSets, texts: EmbeddingSets) -> dict[str, Tensor]:
        chosen, parts = self.chosen, {}
        if chosen.off_global:
            pushed = [
                off_global(one.elements, _pooled(one), chosen.off_global_margin)
                for one in (images, texts)
            ]
            parts["off_global"] = chosen.off_global * (pushed[0] + pushed[1])
        if chosen.within_set:
            pairs = [within_set(one.elements, chosen.within_set_margin) for one in (images, texts)]
            parts["within_set"] = chosen.within_set * (pairs[0] + pairs[1])
        return parts

    def _ranking(
        self, scores: Tensor, owners: Tensor, epoch: int, alike: Tensor | None
    ) -> dict[str, Tensor]:
        chosen = self.chosen
        starting = epoch < chosen.start_epochs
        if chosen.kind == "contrastive" or (starting and chosen.start == "contrastive"):
            return {"contrastive": self._contrastive(scores, owners, alike)}
        negatives = "mean" if starting and chosen.start == "mean" else "hardest"
        parts = {"triplet": triplet(scores, owners, chosen.margin, negatives).total}
        if chosen.contrastive:
            extra = self._contrastive(scores, owners, alike)
            parts["contrastive"] = chosen.contrastive * extra
        return parts

    def _contrastive(self, scores: Tensor, owners: Tensor, alike: Tensor | None) -> Tensor:
        chosen = self.chosen
        return contrastive(
            scores,
            owners,
            chosen.temperature,
            chosen.smoothing,
            alike,
            chosen.soft_labels,
            chosen.soft_temperature,
        )


def annealed_alpha(epoch: int, final: float, chosen: LossConfig) -> float | None:
    """Smooth-Chamfer's alpha in this epoch; None for the model's own.

    >>> growing = LossConfig(alpha_start=1.0, alpha_epochs=2)
    >>> [annealed_alpha(epoch, 16.0, growing) for epoch in range(4)]
    [1.0, 4.0, None, None]
    """
    if epoch >= chosen.alpha_epochs:
        return None
    done = epoch / chosen.alpha_epochs
    return float(chosen.alpha_start * (final / chosen.alpha_start) ** done)


def _pooled(sets: EmbeddingSets) -> Tensor:
    if sets.pooled is None:
        raise OptionError(
            "loss.off_global needs sets that a global feature is added to; these have none, so "
            "set it to 0"
        )
    return sets.pooled


def _gaussian(sets: EmbeddingSets) -> Gaussian:
    if sets.gaussian is None:
        raise OptionError(
            "loss.kind soft_contrastive needs samples; set image_set.kind and text_set.kind to "
            "gaussian"
        )
    return sets.gaussian
