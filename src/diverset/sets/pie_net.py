"""PIE-Net, the set module of PVSE: K attentions over the inputs added to the global feature.

The softmax is over the inputs, separately for each element, so that two elements can attend to the
same input.
"""

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn
from torch.nn import functional as F

from diverset.types import EmbeddingSets, Features


class InputAttention(nn.Module):
    """softmax over inputs of w2 tanh(w1 x), `size` times."""

    def __init__(self, input_width: int, size: int) -> None:
        super().__init__()
        self.hidden = nn.Linear(input_width, input_width // 2, bias=False)
        self.scores = nn.Linear(input_width // 2, size, bias=False)
        nn.init.xavier_uniform_(self.hidden.weight)
        nn.init.xavier_uniform_(self.scores.weight)

    def forward(
        self, local: Float[Tensor, "batch inputs width"], mask: Bool[Tensor, "batch inputs"]
    ) -> Float[Tensor, "batch size inputs"]:
        scores: Tensor = self.scores(torch.tanh(self.hidden(local)))
        scores = scores.masked_fill(~mask[..., None], -torch.inf)
        return scores.softmax(dim=1).transpose(1, 2)


class PieNet(nn.Module):
    """element_k = LN(global + Dropout(sigmoid(fc(attended_k)))), l2-normalised; k = 1 to `size`."""

    def __init__(self, dim: int, input_width: int, size: int = 2, dropout: float = 0.1) -> None:
        super().__init__()
        self.size = size
        self.attention = InputAttention(input_width, size)
        self.fc = nn.Linear(input_width, dim)
        nn.init.xavier_uniform_(self.fc.weight)
        nn.init.zeros_(self.fc.bias)
        self.dropout = nn.Dropout(dropout)
        self.norm = nn.LayerNorm(dim)

    def forward(self, features: Features, with_attention: bool = False) -> EmbeddingSets:
        attention = self.attention(features.local, features.mask)
        residuals = self.dropout(torch.sigmoid(self.fc(attention @ features.local)))
        elements = F.normalize(self.norm(features.pooled[:, None] + residuals), dim=-1)
        maps = (attention[:, None],) if with_attention else ()
        return EmbeddingSets(elements, residuals, maps, pooled=features.pooled)
