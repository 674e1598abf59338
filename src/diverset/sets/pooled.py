"""No set at all: the global feature as the only element. The single-vector control."""

from torch import nn
from torch.nn import functional as F

from diverset.types import EmbeddingSets, Features


class PooledSet(nn.Module):
    """S = {l2norm(global)}; VSE++ and VSE-infinity end like this."""

    size = 1

    def forward(self, features: Features, with_attention: bool = False) -> EmbeddingSets:
        element = features.pooled[:, None]
        return EmbeddingSets(F.normalize(element, dim=-1), element)
