"""NAAF: negative-aware attention (Zhang et al., CVPR 2022).

A word that no region explains counts against the pair, and a threshold on cosines, estimated from
matched and mismatched words during training, decides what "explains" means. The similarity has no
trained weights; its state are two thresholds, one for training and one for evaluation.
"""

from __future__ import annotations

import math

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.nn import functional as F

from diverset.cross_attention.attention import (
    EPSILON,
    LOG2_E,
    all_products,
    attended_length,
    has_padding,
    masked_softmax,
    overwrite,
    unscaled_weights,
    with_gram_matrix,
)
from diverset.cross_attention.blocks import MAX_MEMORY, Local, Mask, Side, score_in_blocks

MIN_WORDS = 200
"""Words of correctly ranked captions that a batch needs before thresholds are estimated."""
MOMENTUM = 0.7
PENALTY = 2.0
"""alpha: how much worse a mismatch taken for a match is than the reverse."""
PROPAGATION = 5.0
"""Sharpness of the attention among the words of a caption (evaluation only)."""


class Naaf(nn.Module):
    """NAAF similarity of every image to every text.

    In training mode with `image_index`, captions are processed in order and the threshold adapts
    after each; gradients treat it as a constant. In evaluation mode `safe_threshold` applies.

    Args:
        sharpness: lambda of both attentions.
        max_memory: bytes for one block of pairs.
    """

    threshold: Tensor
    safe_threshold: Tensor

    def __init__(self, sharpness: float = 20.0, max_memory: int = MAX_MEMORY) -> None:
        super().__init__()
        self.sharpness, self.max_memory = sharpness, max_memory
        self.register_buffer("threshold", torch.zeros((), dtype=torch.float64))
        self.register_buffer("safe_threshold", torch.zeros((), dtype=torch.float64))

    def forward(
        self,
        images: Local,
        image_mask: Mask,
        texts: Local,
        text_mask: Mask,
        image_index: Int[Tensor, " texts"] | None = None,
    ) -> Float[Tensor, "images texts"]:
        start = float(self.threshold if self.training else self.safe_threshold)
        thresholds = texts.new_full((len(texts), 1, 1), start)
        if self.training and image_index is not None:
            thresholds = self._adapt(images, image_mask, texts, text_mask, image_index)
        floats = 8 * images.shape[1] * texts.shape[1]
        sides = Side(images, image_mask), Side(texts, text_mask, (thresholds,))
        return score_in_blocks(self._score, *sides, floats, self.max_memory, with_gram_matrix)[0]

    def _score(self, images: Side, texts: Side) -> tuple[Float[Tensor, "images texts"]]:
        (regions, region_mask, (gram,)), (words, word_mask, (threshold,)) = images, texts
        cosines = all_products(regions, words)
        above = cosines - threshold[:, 0]
        if has_padding(region_mask):
            above = above.masked_fill(~region_mask[:, :, None, None], -math.inf)
        best = above.amax(dim=1)
        negative = torch.where(self._decides(best, words, word_mask) < 0, best, 0)
        # Positive by feature: attend to the regions above the threshold.
        logits = F.threshold(above, 0.0, -math.inf)
        weights = overwrite(overwrite(logits, Tensor.mul, self.sharpness * LOG2_E), Tensor.exp2)
        scale = weights.sum(dim=1) + EPSILON
        lengths = (attended_length(weights, gram) / scale).clamp_min(EPSILON)
        by_feature = overwrite(weights, Tensor.mul, cosines).sum(dim=1) / scale / lengths
        # Positive by relevance: attend to all regions, l2-normalised over the words.
        weights = unscaled_weights(cosines, region_mask, self.sharpness)
        scale = weights.sum(dim=1)
        by_relevance = overwrite(weights, Tensor.mul, cosines).sum(dim=1) / scale
        total = (negative + by_feature + by_relevance) * word_mask
        return (total.sum(dim=2) / word_mask.sum(dim=1),)

    def _decides(self, best: Tensor, texts: Local, text_mask: Mask) -> Tensor:
        """Negative where a word is a mismatch; in evaluation, smoothed over the caption's words."""
        if self.training:
            return best
        logits = PROPAGATION * texts @ texts.transpose(1, 2)
        attention = masked_softmax(logits, text_mask[:, None], dim=2)
        return torch.einsum("cwv,bcv->bcw", attention, best.masked_fill(~text_mask, 0))

    @torch.no_grad()
    def _adapt(
        self, images: Local, image_mask: Mask, texts: Local, text_mask: Mask, image_index: Tensor
    ) -> Float[Tensor, "texts 1 1"]:
        """Update both thresholds caption by caption; returns the one that each caption used."""
        threshold, safe = float(self.threshold), float(self.safe_threshold)
        matched: list[Tensor] = []
        mismatched: list[Tensor] = []
        used, count = torch.empty(len(texts), dtype=texts.dtype, device=texts.device), 0
        regions = Side(images.masked_fill(~image_mask[..., None], 0), image_mask)
        prepared = with_gram_matrix(regions)
        # The published batches are sorted by length, the longest caption first.
        for number in text_mask.sum(dim=1).argsort(descending=True, stable=True).tolist():
            used[number] = threshold
            words = texts[number, text_mask[number]]
            constant = words.new_full((1, 1, 1), threshold)
            text = Side(words[None], text_mask.new_ones(1, len(words)), (constant,))
            scores = self._score(prepared, text)[0][:, 0]
            if int(scores.argmax()) == int(image_index[number]):
                for samples, image in ((matched, scores.argmax()), (mismatched, scores.argmin())):
                    samples.append((words @ images[image][image_mask[image]].T).amax(dim=1))
                count += len(words)
                if count > MIN_WORDS:
                    threshold, safe = _estimate(
                        torch.cat(matched).double(), torch.cat(mismatched).double(), threshold, safe
                    )
            if count < MIN_WORDS:
                threshold = safe = 0.0
        self.threshold.fill_(threshold)
        self.safe_threshold.fill_(safe)
        return used[:, None, None]


def _estimate(
    matched: Tensor, mismatched: Tensor, threshold: float, safe: float
) -> tuple[float, float]:
    """Where the two normal densities, the second weighted by the penalty, cross."""
    mean, deviation = float(matched.mean()), float(matched.std())
    other_mean, other_deviation = float(mismatched.mean()), float(mismatched.std())
    a = deviation**2 - other_deviation**2
    b = 2 * (mean * other_deviation**2 - other_mean * deviation**2)
    c = (other_mean * deviation) ** 2 - (mean * other_deviation) ** 2
    ratio = other_deviation / (PENALTY * deviation) + EPSILON
    c += 2 * (deviation * other_deviation) ** 2 * math.log(ratio)
    discriminant = b**2 - 4 * a * c
    new, new_safe = threshold, safe
    if discriminant > 0:
        new, new_safe = (-b + math.sqrt(discriminant)) / (2 * a + 1e-10), mean - 3 * deviation
    new, new_safe = (value if 0 <= value <= 1 else 0.0 for value in (new, new_safe))
    return (
        MOMENTUM * new + (1 - MOMENTUM) * threshold,
        MOMENTUM * new_safe + (1 - MOMENTUM) * safe,
    )
