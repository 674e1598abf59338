"""The loss of PCME: soft contrastive likelihood of sampled embeddings, and its bottleneck."""

import math

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.nn import functional as F

from diverset.errors import ShapeError
from diverset.similarity import check_image_index
from diverset.similarity.cosines import pairwise_cosines
from diverset.types import Gaussian


class SoftContrastive(nn.Module):
    """Negative log likelihood of match / no match for every image-caption pair of a batch.

    The match probability of a pair is the mean of sigmoid(-scale * distance + shift) over pairs of
    samples. Scale and shift are trained, from these initial values.
    """

    def __init__(self, scale: float = 15.0, shift: float = 15.0) -> None:
        super().__init__()
        self.scale = nn.Parameter(torch.tensor(float(scale)))
        self.shift = nn.Parameter(torch.tensor(float(shift)))

    def forward(
        self,
        images: Float[Tensor, "images samples dim"],
        texts: Float[Tensor, "texts text_samples dim"],
        image_index: Int[Tensor, " texts"],
    ) -> Float[Tensor, ""]:
        """Mean over all pairs; `image_index` is the row of each caption's image."""
        if images.ndim != 3 or texts.ndim != 3 or images.shape[-1] != texts.shape[-1]:
            raise ShapeError(
                f"samples are {tuple(images.shape)} and {tuple(texts.shape)}; give "
                "(items, samples, dim) with the same dim"
            )
        image_index = check_image_index(image_index, len(images), len(texts))
        squares = images.square().sum(dim=2)[:, :, None, None] + texts.square().sum(dim=2).T
        squares = squares - 2 * pairwise_cosines(images, texts)  # plain inner products here
        # The gradient of the root is infinite at 0; PCME uses this floor.
        logits = self.shift - self.scale * squares.clamp_min(1e-10).sqrt()
        own = image_index == torch.arange(len(images), device=image_index.device)[:, None]
        sign = torch.where(own, 1.0, -1.0)[:, None, None]  # log P(no match) = log sigmoid(-logit)
        log_likelihood = F.logsigmoid(sign * logits)
        pairs = logits.shape[1] * logits.shape[2]
        return -(log_likelihood.logsumexp(dim=(1, 2)) - math.log(pairs)).mean()


def variational_bottleneck(gaussian: Gaussian) -> Float[Tensor, ""]:
    """KL divergence to the unit normal, mean over the batch (PCME weighs it 1e-5)."""
    mean, log_sigma = gaussian.mean, gaussian.log_sigma
    kl = (mean.square() + (2 * log_sigma).exp() - 1) / 2 - log_sigma
    return kl.sum(dim=-1).mean()
