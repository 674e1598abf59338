"""The triplet loss over images with all their captions (Eq. 9), from a similarity matrix.

An image's own captions are never its negatives, nor is a caption's own image. Both directions
are means over the captions of the batch, as in the released code; the paper writes sums.
"""

from typing import NamedTuple

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from diverset.errors import InputError, OptionError, check_choice
from diverset.losses.owners import check_owners, check_scores

NEGATIVES = ("hardest", "mean")


class Triplet(NamedTuple):
    """The two halves of the loss; train on their sum."""

    image_to_text: Float[Tensor, ""]
    text_to_image: Float[Tensor, ""]

    @property
    def total(self) -> Float[Tensor, ""]:
        return self.image_to_text + self.text_to_image


def triplet(
    scores: Float[Tensor, "images texts"],
    owners: Int[Tensor, " texts"],
    margin: float = 0.2,
    negatives: str = "hardest",
) -> Triplet:
    """Hinge of every caption's match against negatives in both directions.

    Args:
        scores: similarity of every image to every caption of the batch.
        owners: for every caption, the row of the image it belongs to.
        margin: delta of Eq. 9.
        negatives: "hardest" of the batch, or the "mean" over all hinges (for a first epoch, when
            hardest negatives alone would not let training start).

    >>> scores = torch.tensor([[0.9, 0.8, 0.1], [0.2, 0.75, 0.6]])
    >>> triplet(scores, torch.tensor([0, 0, 1]), margin=0.2)
    Triplet(image_to_text=tensor(0.1167), text_to_image=tensor(0.0500))
    """
    check_choice("negatives", negatives, NEGATIVES)
    images, texts = check_scores(scores)
    owners = check_owners(owners, images, texts)
    own = _own_pairs(scores, owners, margin)
    matches = scores[owners, torch.arange(len(owners), device=scores.device)]
    if negatives == "hardest":
        others = scores.masked_fill(own, -torch.inf)
        hardest_text = others.amax(dim=1)[owners]
        hardest_image = others.amax(dim=0)
        return Triplet(
            (margin + hardest_text - matches).relu().mean(),
            (margin + hardest_image - matches).relu().mean(),
        )
    foreign = ~own[owners]  # (texts, texts): texts of another image
    to_texts = (margin + scores[owners] - matches[:, None]).relu()
    to_images = (margin + scores - matches).relu()
    return Triplet(_mean_where(to_texts, foreign), _mean_where(to_images, ~own))


def _own_pairs(scores: Tensor, owners: Tensor, margin: float) -> Bool[Tensor, "images texts"]:
    images = len(scores)
    if images < 2 or bool((owners == owners[0]).all()):
        raise InputError(
            "captions of a single image have no negatives; use at least two images with captions"
        )
    if margin < 0:
        raise OptionError(f"margin is {margin}; give 0 or more (paper: 0.2, or 0.1 with a CNN)")
    return owners == torch.arange(images, device=owners.device)[:, None]


def _mean_where(values: Tensor, chosen: Tensor) -> Tensor:
    return (values * chosen).sum() / chosen.sum()
