"""PCME's loss: the soft contrastive likelihood of matches between sampled embeddings, and VIB."""

import math

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.nn import functional as F

from diverset.errors import ShapeError
from diverset.losses.owners import check_owners
from diverset.types import Gaussian


class SoftContrastive(nn.Module):
    """Negative log likelihood of match / no match for every image-caption pair of a batch.

    A pair matches with probability mean over sample pairs of sigmoid(-scale * distance + shift),
    with both numbers trained.

    Args:
        scale: start of the trained factor a.
        shift: start of the trained offset b.
    """

    def __init__(self, scale: float = 15.0, shift: float = 15.0) -> None:
        super().__init__()
        self.scale = nn.Parameter(torch.tensor(float(scale)))
        self.shift = nn.Parameter(torch.tensor(float(shift)))

    def forward(
        self,
        images: Float[Tensor, "images samples dim"],
        texts: Float[Tensor, "texts text_samples dim"],
        owners: Int[Tensor, " texts"],
    ) -> Float[Tensor, ""]:
        """`owners` gives for every caption the row of its image. Mean over all pairs."""
        if images.ndim != 3 or texts.ndim != 3 or images.shape[-1] != texts.shape[-1]:
            raise ShapeError(
                f"samples are {tuple(images.shape)} and {tuple(texts.shape)}; give "
                "(items, samples, dim) of one width"
            )
        owners = check_owners(owners, len(images), len(texts))
        logits = self.shift - self.scale * _distances(images, texts)
        own = owners == torch.arange(len(images), device=owners.device)[:, None]
        sign = torch.where(own, 1.0, -1.0)[:, None, None]  # log P(no match) = log sigmoid(-logit)
        log_likelihood = F.logsigmoid(sign * logits)
        pairs = logits.shape[1] * logits.shape[2]
        return -(log_likelihood.logsumexp(dim=(1, 2)) - math.log(pairs)).mean()


def variational_bottleneck(gaussian: Gaussian) -> Float[Tensor, ""]:
    """KL divergence to the unit normal, mean over the batch (PCME weighs it 1e-5)."""
    mean, log_sigma = gaussian.mean, gaussian.log_sigma
    kl = (mean.square() + (2 * log_sigma).exp() - 1) / 2 - log_sigma
    return kl.sum(dim=-1).mean()


def _distances(
    images: Float[Tensor, "images samples dim"], texts: Float[Tensor, "texts text_samples dim"]
) -> Float[Tensor, "images samples text_samples texts"]:
    count, samples, dim = images.shape
    by_sample = texts.transpose(0, 1).reshape(-1, dim)
    rows = images.reshape(-1, dim)
    squared = (
        rows.square().sum(dim=1)[:, None] + by_sample.square().sum(dim=1) - 2 * rows @ by_sample.T
    )
    # The root's gradient is infinite at 0; PCME's own floor.
    distances = squared.clamp_min(1e-10).sqrt()
    return distances.view(count, samples, texts.shape[1], len(texts))
