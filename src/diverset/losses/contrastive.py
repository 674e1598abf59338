"""The softmax contrastive loss (InfoNCE), as a start before hardest negatives take over.

Not part of the paper. Hardest negatives from the first step can leave the triplet loss at twice
its margin for epochs; a softmax over the batch has no such plateau. Its targets can be smoothed,
or softened by how alike captions are: some foreign captions of a batch describe the picture too.
"""

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor
from torch.nn import functional as F

from diverset.errors import OptionError, ShapeError
from diverset.losses.owners import check_owners, check_scores


def contrastive(
    scores: Float[Tensor, "images texts"],
    owners: Int[Tensor, " texts"],
    temperature: float = 0.05,
    smoothing: float = 0.0,
    alike: Float[Tensor, "texts texts"] | None = None,
    soft: float = 0.0,
    soft_temperature: float = 0.1,
) -> Float[Tensor, ""]:
    """Cross-entropy of every caption's match in both directions, mean over captions.

    An image's other captions are left out of the softmax of each, as they are no negatives. A
    target is (1 - smoothing - soft) * match + smoothing * uniform + soft * softmax(alike / t).

    Args:
        scores: similarity of every image to every caption of the batch.
        owners: for every caption, the row of the image it belongs to.
        temperature: scores are divided by it.
        smoothing: share of a target that is spread evenly over all candidates.
        alike: how alike captions are, e.g. cosines of frozen embeddings; an image is as alike to
            a caption as the mean of its captions is.
        soft: share of a target that is spread by `alike`.
        soft_temperature: `alike` is divided by it.
    """
    owners = check_owners(owners, *check_scores(scores))
    if not temperature > 0:
        raise OptionError(f"temperature is {temperature}; give a number above 0 (usual: 0.05)")
    logits = scores / temperature
    texts = torch.arange(len(owners), device=owners.device)
    rows = logits[owners]
    siblings = (owners[:, None] == owners) & (texts[:, None] != texts)
    if not smoothing and not soft:
        text_to_image = F.cross_entropy(logits.T, owners)
        image_to_text = F.cross_entropy(rows.masked_fill(siblings, -torch.inf), texts)
        return image_to_text + text_to_image
    like_texts = _alike(alike, len(owners), soft, soft_temperature)
    like_images = None if like_texts is None else _by_image(like_texts, owners, len(scores))
    everything = torch.ones_like(logits.T, dtype=torch.bool)
    return _cross_entropy(logits.T, owners, everything, smoothing, like_images, soft) + (
        _cross_entropy(rows, texts, ~siblings, smoothing, like_texts, soft)
    )


def _cross_entropy(
    logits: Float[Tensor, "queries candidates"],
    matches: Int[Tensor, " queries"],
    allowed: Bool[Tensor, "queries candidates"],
    smoothing: float,
    alike: Float[Tensor, "queries candidates"] | None,
    soft: float,
) -> Float[Tensor, ""]:
    """With targets that are shared between the match and other candidates."""
    logs = logits.masked_fill(~allowed, -torch.inf).log_softmax(dim=1).masked_fill(~allowed, 0)
    targets = (1 - smoothing - soft) * F.one_hot(matches, logits.shape[1]).to(logs.dtype)
    targets = targets + smoothing * allowed / allowed.sum(dim=1, keepdim=True)
    if alike is not None:
        targets = targets + soft * alike.masked_fill(~allowed, -torch.inf).softmax(dim=1)
    return -(targets * logs).sum(dim=1).mean()


def _alike(alike: Tensor | None, texts: int, soft: float, temperature: float) -> Tensor | None:
    if not soft:
        return None
    if alike is None or alike.shape != (texts, texts):
        shape = None if alike is None else tuple(alike.shape)
        raise ShapeError(f"alike is {shape} for {texts} captions; give (captions, captions)")
    return alike.detach() / temperature


def _by_image(alike: Tensor, owners: Tensor, images: int) -> Tensor:
    """The mean over each image's captions."""
    sums = alike.new_zeros(len(alike), images).index_add_(1, owners, alike)
    counts = torch.bincount(owners, minlength=images).clamp_min(1)
    return sums / counts
