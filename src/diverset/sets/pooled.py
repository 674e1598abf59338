"""The global feature as the only element: the single-vector baseline."""

from torch import nn
from torch.nn import functional as F

from diverset.types import EmbeddingSets, Features


class PooledSet(nn.Module):
    """S = {l2norm(global)}, as in VSE++ and VSE-infinity."""

    size = 1

    def forward(self, features: Features, with_attention: bool = False) -> EmbeddingSets:
        element = features.pooled[:, None]
        return EmbeddingSets(F.normalize(element, dim=-1), element)
