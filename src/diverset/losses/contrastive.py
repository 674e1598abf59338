"""The softmax contrastive loss (InfoNCE), as a start before hardest negatives take over.

Not part of the paper. Hardest negatives from the first step can leave the triplet loss at twice
its margin for epochs; a softmax over the batch has no such plateau.
"""

import torch
from jaxtyping import Float, Int
from torch import Tensor
from torch.nn import functional as F

from diverset.errors import OptionError
from diverset.losses.owners import check_owners, check_scores


def contrastive(
    scores: Float[Tensor, "images texts"],
    owners: Int[Tensor, " texts"],
    temperature: float = 0.05,
) -> Float[Tensor, ""]:
    """Cross-entropy of every caption's match in both directions, mean over captions.

    An image's other captions are left out of the softmax of each, as they are no negatives.

    Args:
        scores: similarity of every image to every caption of the batch.
        owners: for every caption, the row of the image it belongs to.
        temperature: scores are divided by it.
    """
    owners = check_owners(owners, *check_scores(scores))
    if not temperature > 0:
        raise OptionError(f"temperature is {temperature}; give a number above 0 (usual: 0.05)")
    logits = scores / temperature
    texts = torch.arange(len(owners), device=owners.device)
    text_to_image = F.cross_entropy(logits.T, owners)
    rows = logits[owners]
    siblings = (owners[:, None] == owners) & (texts[:, None] != texts)
    image_to_text = F.cross_entropy(rows.masked_fill(siblings, -torch.inf), texts)
    return image_to_text + text_to_image
