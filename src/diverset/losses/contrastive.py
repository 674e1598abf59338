"""The softmax contrastive loss (InfoNCE), for the epochs before the hardest-negative triplet loss.

Not part of the paper. With hardest negatives from the first step, the triplet loss can stay at
twice its margin for epochs; a softmax over the batch has no such plateau. Its targets can be
smoothed, or softened by caption similarity: captions of other images may describe the image too.
"""

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor
from torch.nn import functional as F

from diverset.errors import ShapeError, check_positive
from diverset.similarity import check_image_index, check_scores


def contrastive(
    scores: Float[Tensor, "images texts"],
    image_index: Int[Tensor, " texts"],
    temperature: float = 0.05,
    smoothing: float = 0.0,
    caption_similarity: Float[Tensor, "texts texts"] | None = None,
    soft: float = 0.0,
    soft_temperature: float = 0.1,
    excluded: Bool[Tensor, "images texts"] | None = None,
) -> Float[Tensor, ""]:
    """Cross-entropy of every caption's match in both directions, mean over captions.

    An image's other captions are excluded from the softmax of each: they are not negatives. A
    target is (1 - smoothing - soft) * match + smoothing * uniform
    + soft * softmax(caption_similarity / soft_temperature).

    Args:
        scores: similarity of every image to every caption of the batch.
        image_index: the row of the image that each caption belongs to.
        temperature: scores are divided by it.
        smoothing: share of a target that is uniform over all candidates.
        caption_similarity: of all pairs, e.g. cosines of frozen embeddings. The similarity of a
            caption to an image is the mean over the image's captions.
        soft: share of a target that is distributed by `caption_similarity`.
        soft_temperature: `caption_similarity` is divided by it.
        excluded: True for pairs that are not negatives although they do not belong together.
    """
    image_index = check_image_index(image_index, *check_scores(scores))
    check_positive("temperature", temperature)
    logits = scores / temperature
    texts = torch.arange(len(image_index), device=image_index.device)
    to_images, to_texts = _candidates(image_index, len(scores), excluded)
    by_image = by_text = None
    if soft:
        by_text = _scaled(caption_similarity, len(image_index), soft_temperature)
        by_image = _mean_by_image(by_text, image_index, len(scores))
    text_to_image = _cross_entropy(logits.T, image_index, to_images, smoothing, by_image, soft)
    image_to_text = _cross_entropy(logits[image_index], texts, to_texts, smoothing, by_text, soft)
    return image_to_text + text_to_image


def _candidates(
    image_index: Int[Tensor, " texts"], images: int, excluded: Bool[Tensor, "images texts"] | None
) -> tuple[Bool[Tensor, "texts images"], Bool[Tensor, "texts texts"]]:
    """For each caption the images, and the captions for its image, that its softmax is over."""
    rows = torch.arange(images, device=image_index.device)
    texts = torch.arange(len(image_index), device=image_index.device)
    to_images = torch.ones(len(texts), images, dtype=torch.bool, device=image_index.device)
    to_texts = (image_index[:, None] != image_index) | (texts[:, None] == texts)
    if excluded is not None:
        to_images = ~excluded.T | (image_index[:, None] == rows)
        to_texts = to_texts & to_images.T[image_index]
    return to_images, to_texts


def _cross_entropy(
    logits: Float[Tensor, "queries candidates"],
    matches: Int[Tensor, " queries"],
    allowed: Bool[Tensor, "queries candidates"],
    smoothing: float,
    similarity: Float[Tensor, "queries candidates"] | None,
    soft: float,
) -> Float[Tensor, ""]:
    """Mean cross-entropy over the allowed candidates; `similarity` softens the targets."""
    logits = logits.masked_fill(~allowed, -torch.inf)
    if not smoothing and similarity is None:
        return F.cross_entropy(logits, matches)
    logs = logits.log_softmax(dim=1).masked_fill(~allowed, 0)
    targets = (1 - smoothing - soft) * F.one_hot(matches, logits.shape[1]).to(logs.dtype)
    targets = targets + smoothing * allowed / allowed.sum(dim=1, keepdim=True)
    if similarity is not None:
        targets = targets + soft * similarity.masked_fill(~allowed, -torch.inf).softmax(dim=1)
    return -(targets * logs).sum(dim=1).mean()


def _scaled(caption_similarity: Tensor | None, texts: int, temperature: float) -> Tensor:
    if caption_similarity is None or caption_similarity.shape != (texts, texts):
        shape = None if caption_similarity is None else tuple(caption_similarity.shape)
        raise ShapeError(
            f"caption_similarity is {shape} for {texts} captions; give (captions, captions)"
        )
    return caption_similarity.detach() / temperature


def _mean_by_image(similarity: Tensor, image_index: Tensor, images: int) -> Tensor:
    """Mean over the captions of each image."""
    sums = similarity.new_zeros(len(similarity), images).index_add_(1, image_index, similarity)
    counts = torch.bincount(image_index, minlength=images).clamp_min(1)
    return sums / counts
