"""The probabilistic embedding of PCME: a normal distribution per input, and samples from it."""

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from diverset.sets.pie_net import InputAttention, PieNet
from diverset.types import EmbeddingSets, Features, Gaussian


class GaussianSets(nn.Module):
    """Mean = PIE-Net with one element; log sigma from the global and the attended features.

    In training the noise is drawn for every batch. In evaluation it is drawn once and stored with
    the weights, so that the same input always gives the same set. `size` is the number of samples.
    """

    noise: Tensor

    def __init__(self, dim: int, input_width: int, size: int = 7, dropout: float = 0.1) -> None:
        super().__init__()
        self.size = size
        self.mean = PieNet(dim, input_width, size=1, dropout=dropout)
        self.attention = InputAttention(input_width, 1)
        self.from_local = nn.Linear(input_width, dim)
        self.from_global = nn.Linear(dim, dim)
        # Narrow at first: training aligns the means before the variances matter.
        nn.init.constant_(self.from_global.bias, -4.0)
        self.register_buffer("noise", torch.randn(size, dim))

    def forward(self, features: Features, with_attention: bool = False) -> EmbeddingSets:
        mean_set = self.mean(features, with_attention)
        attended = self.attention(features.local, features.mask) @ features.local
        log_sigma = self.from_global(features.pooled) + self.from_local(attended[:, 0])
        mean = mean_set.elements[:, 0]
        noise = self.noise
        if self.training:
            noise = torch.randn(len(mean), *noise.shape, device=mean.device, dtype=mean.dtype)
        samples = mean[:, None] + log_sigma.exp()[:, None] * noise
        elements = F.normalize(samples, dim=-1)
        gaussian = Gaussian(mean, log_sigma, samples)
        return EmbeddingSets(elements, samples, mean_set.attention, gaussian)
