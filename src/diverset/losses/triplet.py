"""The triplet loss over images with all their captions (Eq. 9), from a similarity matrix.

An image's own captions are never its negatives, nor is a caption's own image. Both directions
are means, as in the released code; the paper writes sums: with hardest negatives over the captions
of the batch, otherwise over all pairs of a caption and a negative.
"""

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from diverset.errors import InputError, OptionError, check_choice
from diverset.similarity import check_image_index, check_scores
from diverset.similarity.cosines import Scores
from diverset.types import can_inspect

NEGATIVES = ("hardest", "mean")


def triplet(
    scores: Scores,
    image_index: Int[Tensor, " texts"],
    margin: float = 0.2,
    negatives: str = "hardest",
    excluded: Bool[Tensor, "images texts"] | None = None,
) -> Float[Tensor, ""]:
    """Eq. 9: the sum of the image-to-text and the text-to-image loss.

    Args:
        scores: similarity of every image to every caption of the batch.
        image_index: the row of the image that each caption belongs to.
        margin: delta of Eq. 9.
        negatives: "hardest" of the batch, or the "mean" over all hinges (for a first epoch, when
            training would not start with hardest negatives).
        excluded: True for pairs that are not negatives although they do not belong together.

    >>> scores = torch.tensor([[0.9, 0.8, 0.1], [0.2, 0.75, 0.6]])
    >>> triplet(scores, torch.tensor([0, 0, 1]), margin=0.2)
    tensor(0.1667)
    """
    to_texts, to_images = triplet_directions(scores, image_index, margin, negatives, excluded)
    return to_texts + to_images


def triplet_directions(
    scores: Scores,
    image_index: Tensor,
    margin: float,
    negatives: str,
    excluded: Tensor | None = None,
) -> tuple[Float[Tensor, ""], Float[Tensor, ""]]:
    """The two sums of Eq. 9, image to text and text to image, as means."""
    check_choice("negatives", negatives, NEGATIVES)
    images, texts = check_scores(scores)
    image_index = check_image_index(image_index, images, texts)
    own = _own_pairs(scores, image_index, margin)
    no_negatives = own if excluded is None else own | excluded
    matches = scores[image_index, torch.arange(len(image_index), device=scores.device)]
    if negatives == "hardest":
        others = scores.masked_fill(no_negatives, -torch.inf)
        hardest_text = others.amax(dim=1)[image_index]
        hardest_image = others.amax(dim=0)
        return (
            (margin + hardest_text - matches).relu().mean(),
            (margin + hardest_image - matches).relu().mean(),
        )
    foreign = ~no_negatives[image_index]  # (texts, texts): texts of another image
    to_texts = (margin + scores[image_index] - matches[:, None]).relu()
    to_images = (margin + scores - matches).relu()
    return _masked_mean(to_texts, foreign), _masked_mean(to_images, ~no_negatives)


def _own_pairs(scores: Tensor, image_index: Tensor, margin: float) -> Bool[Tensor, "images texts"]:
    images = len(scores)
    if images < 2 or (can_inspect(image_index) and bool((image_index == image_index[0]).all())):
        raise InputError(
            "captions of a single image have no negatives; use at least two images with captions"
        )
    if margin < 0:
        raise OptionError(f"margin is {margin}; give 0 or more (paper: 0.2, or 0.1 with a CNN)")
    return image_index == torch.arange(images, device=image_index.device)[:, None]


def _masked_mean(values: Tensor, mask: Tensor) -> Tensor:
    return (values * mask).sum() / mask.sum().clamp_min(1)
