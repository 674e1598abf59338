"""The paper's ablation (Table 3, right): a transformer decoder replaces the aggregation block.

Learned queries attend to each other and to the inputs. The softmax is over the inputs, so elements
do not compete for them. Weights are tied over the iterations, as in the slot module.
"""

from torch import Tensor, nn
from torch.nn import functional as F

from diverset.errors import OptionError
from diverset.sets.feed_forward import FeedForward
from diverset.sets.slots import random_slots
from diverset.types import EmbeddingSets, Features


class TransformerSets(nn.Module):
    """K learned queries through T tied decoder layers, plus the global feature (Eq. 5)."""

    def __init__(
        self,
        dim: int,
        input_width: int,
        size: int = 4,
        iterations: int = 4,
        heads: int = 4,
        mlp_factor: float = 4,
        dropout: float = 0.1,
    ) -> None:
        super().__init__()
        if dim % heads:
            raise OptionError(f"dim is {dim} and heads {heads}; give a multiple of the heads")
        self.size, self.iterations = size, iterations
        self.slots = nn.Parameter(random_slots(size, dim))
        self.input_norm = nn.LayerNorm(input_width)
        self.query_norm = nn.LayerNorm(dim)
        self.self_attention = nn.MultiheadAttention(dim, heads, batch_first=True)
        self.cross_norm = nn.LayerNorm(dim)
        self.cross_attention = nn.MultiheadAttention(
            dim, heads, kdim=input_width, vdim=input_width, batch_first=True
        )
        self.dropout = nn.Dropout(dropout)
        self.mlp = FeedForward(dim, mlp_factor, dropout)
        self.slot_norm = nn.LayerNorm(dim)
        self.global_norm = nn.LayerNorm(dim)

    def forward(self, features: Features, with_attention: bool = False) -> EmbeddingSets:
        values = self.input_norm(features.local)
        keys = values if features.positions is None else values + features.positions
        slots = self.slots.expand(values.shape[0], -1, -1)  # len() would fix it in a trace
        maps: list[Tensor] = []
        for _ in range(self.iterations):
            queries = self.query_norm(slots)
            among, _weights = self.self_attention(queries, queries, queries, need_weights=False)
            slots = slots + self.dropout(among)
            update, attention = self.cross_attention(
                self.cross_norm(slots),
                keys,
                values,
                key_padding_mask=~features.mask,
                need_weights=with_attention,
                average_attn_weights=False,
            )
            slots = slots + self.dropout(update)
            slots = slots + self.mlp(slots)
            if with_attention:
                maps.append(attention)
        slots = self.slot_norm(slots)
        pooled = self.global_norm(features.pooled)
        elements = F.normalize(slots + pooled[:, None], dim=-1)
        return EmbeddingSets(elements, slots, tuple(maps), pooled=pooled)
