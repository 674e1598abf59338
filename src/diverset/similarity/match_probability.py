"""Match probability, the similarity of PCME (Sec. 3.3)."""

import torch
from torch import nn

from diverset.similarity.checks import check_sets
from diverset.similarity.cosines import ImageSets, Scores, TextSets, pairwise_cosines


class MatchProbability(nn.Module):
    """The mean of sigmoid(a c(x, y) + b) over all pairs of elements; a and b are trained.

    The paper writes a sum over pairs; the mean differs from it by a constant factor and keeps
    scores within 0..1.
    """

    def __init__(self, a: float = 1.0, b: float = 0.0) -> None:
        super().__init__()
        self.a = nn.Parameter(torch.tensor(float(a)))
        self.b = nn.Parameter(torch.tensor(float(b)))

    def forward(self, images: ImageSets, texts: TextSets) -> Scores:
        check_sets(images, texts)
        cosines = pairwise_cosines(images, texts)
        return torch.sigmoid(self.a * cosines + self.b).mean(dim=(1, 2))
