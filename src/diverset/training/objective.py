"""From the sets of a batch to one number to minimise, with its parts for the log."""

from __future__ import annotations

from jaxtyping import Float, Int
from torch import Tensor, nn

from diverset.errors import OptionError
from diverset.losses import (
    SoftContrastive,
    contrastive,
    diversity,
    gram_diversity,
    mmd,
    triplet,
    variational_bottleneck,
)
from diverset.model import Model
from diverset.training.settings import LossConfig
from diverset.types import EmbeddingSets, Gaussian


class Objective(nn.Module):
    """The loss of a recipe; a module because PCME's has trained numbers of its own."""

    def __init__(self, chosen: LossConfig) -> None:
        super().__init__()
        self.chosen = chosen
        self.soft = SoftContrastive() if chosen.kind == "soft_contrastive" else None

    def forward(
        self,
        model: Model,
        images: EmbeddingSets,
        texts: EmbeddingSets,
        owners: Int[Tensor, " texts"],
        epoch: int,
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
            scores = model.score(images.elements, texts.elements)
            parts |= self._ranking(scores, owners, epoch)
        if chosen.mmd:
            parts["mmd"] = chosen.mmd * mmd(images.elements, texts.elements)
        for name, weight, loss in (
            ("diversity", chosen.diversity, diversity),
            ("gram_diversity", chosen.gram_diversity, gram_diversity),
        ):
            if weight:
                parts[name] = weight * (loss(images.slots) + loss(texts.slots))
        return parts

    def _ranking(self, scores: Tensor, owners: Tensor, epoch: int) -> dict[str, Tensor]:
        chosen = self.chosen
        starting = epoch < chosen.start_epochs
        if chosen.kind == "contrastive" or (starting and chosen.start == "contrastive"):
            return {"contrastive": contrastive(scores, owners, chosen.temperature)}
        negatives = "mean" if starting and chosen.start == "mean" else "hardest"
        parts = {"triplet": triplet(scores, owners, chosen.margin, negatives).total}
        if chosen.contrastive:
            extra = contrastive(scores, owners, chosen.temperature)
            parts["contrastive"] = chosen.contrastive * extra
        return parts


def _gaussian(sets: EmbeddingSets) -> Gaussian:
    if sets.gaussian is None:
        raise OptionError(
            "loss.kind soft_contrastive needs samples; set image_set.kind and text_set.kind to "
            "gaussian"
        )
    return sets.gaussian
