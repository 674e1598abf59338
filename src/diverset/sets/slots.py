"""The paper's set prediction module (Sec. 3.2, Eq. 1-5): slots compete for the local features.

K slots attend to the local features. The softmax is over the *slots*, so that they compete for each
input. T iterations with tied weights refine them, and the global feature is added at the end.
Keys and values are not computed: q k^T = (q W_k) x^T and A v = (A x) W_v^T give the same with fewer
products and less memory, because there are fewer slots than inputs.

Padding is masked after the softmax over slots. (Masking before it, as in the released code, gives
every slot an equal share of the padding.)
"""

from __future__ import annotations

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn
from torch.nn import functional as F

from diverset.config import INITIAL_SLOTS, SLOT_UPDATES
from diverset.errors import OptionError, check_choice
from diverset.sets.feed_forward import FeedForward
from diverset.types import EmbeddingSets, Features

Slots = Float[Tensor, "batch slots dim"]
Inputs = Float[Tensor, "batch inputs width"]
Attention = Float[Tensor, "batch heads slots inputs"]

EPSILON = 1e-7


def random_slots(size: int, dim: int) -> Tensor:
    """Initial slots from a standard normal distribution; without values on the "meta" device.

    torch imports its compiler, which takes a second, to draw numbers on that device.
    """
    slots = torch.empty(size, dim)
    return slots if slots.is_meta else slots.normal_()


class SlotSets(nn.Module):
    """Eq. 1-5: E^0 are learned slots, T aggregation blocks update them, S adds the global feature.

    Args:
        dim: width D of the slots and of the global feature.
        input_width: width of the local features.
        size: number K of slots.
        iterations: number T of tied aggregation blocks.
        heads: number of attention heads; the paper has one, the released code four.
        inner_width: width D_h of keys, queries and values, over all heads.
        mlp_factor: width of the MLP's hidden layer divided by `dim`.
        dropout: on the attention's output and inside the MLP.
        initial: "learned" slots E^0, or "random" ones drawn from a learned normal distribution
            as in the original slot attention (ablation).
        update: "residual" sum (Eq. 3), or the "gru" of the original slot attention (ablation).
        add_global: whether the global feature is added to the final slots (Eq. 5).
    """

    def __init__(
        self,
        dim: int,
        input_width: int,
        size: int = 4,
        iterations: int = 4,
        heads: int = 1,
        inner_width: int = 2048,
        mlp_factor: float = 4,
        dropout: float = 0.1,
        initial: str = "learned",
        update: str = "residual",
        add_global: bool = True,
    ) -> None:
        super().__init__()
        check_choice("initial", initial, INITIAL_SLOTS)
        check_choice("update", update, SLOT_UPDATES)
        if inner_width % heads:
            raise OptionError(
                f"inner_width is {inner_width} and heads {heads}; give a multiple of the heads"
            )
        self.size, self.iterations, self.heads, self.initial = size, iterations, heads, initial
        # Random slots share one mean and one log sigma.
        self.slots = nn.Parameter(random_slots(size if initial == "learned" else 2, dim))
        self.input_norm = nn.LayerNorm(input_width)
        self.to_keys = nn.Linear(input_width, inner_width, bias=False)
        self.to_values = nn.Linear(input_width, inner_width, bias=False)
        self.query_norm = nn.LayerNorm(dim)
        self.to_queries = nn.Linear(dim, inner_width, bias=False)
        self.to_slots = nn.Linear(inner_width, dim)
        self.dropout = nn.Dropout(dropout)
        self.gru = nn.GRUCell(dim, dim) if update == "gru" else None
        self.mlp = FeedForward(dim, mlp_factor, dropout)
        self.slot_norm = nn.LayerNorm(dim)
        self.global_norm = nn.LayerNorm(dim) if add_global else None

    def forward(self, features: Features, with_attention: bool = False) -> EmbeddingSets:
        for_keys, for_values = self._inputs(features)
        slots = self._initial_slots(for_keys.shape[0])  # not len(), a constant in a trace
        maps = []
        for _ in range(self.iterations):  # Eq. 1: E^t = AggBlock(psi(x); E^(t-1))
            attention = self._attention(slots, for_keys, features.mask)  # Eq. 2
            update = self._weighted_mean(attention, for_values)  # Eq. 3, left and A^T v W_o
            slots = self._update(slots, self.dropout(update))  # Eq. 3, right: + E^(t-1)
            slots = slots + self.mlp(slots)  # Eq. 4
            if with_attention:
                maps.append(attention)
        slots = self.slot_norm(slots)  # LN(E^T)
        if self.global_norm is None:
            return EmbeddingSets(F.normalize(slots, dim=-1), slots, tuple(maps))
        pooled = self.global_norm(features.pooled)  # LN(phi(x))
        # Eq. 5; unit length because similarities compare elements by their cosine.
        elements = F.normalize(slots + pooled[:, None], dim=-1)
        return EmbeddingSets(elements, slots, tuple(maps), pooled=pooled)

    def _initial_slots(self, batch: int) -> Float[Tensor, "batch_or_one slots dim"]:
        if self.initial == "learned":
            # Not expanded: the queries of the first iteration are the same for every sample.
            return self.slots[None]
        mean, log_sigma = self.slots
        noise = torch.randn(batch, self.size, len(mean), device=mean.device, dtype=mean.dtype)
        slots: Tensor = mean + log_sigma.exp() * noise
        return slots

    def _inputs(self, features: Features) -> tuple[Inputs, Inputs]:
        """What keys and values are projections of (Eq. 2-3): x with and without positions."""
        local, mask = features.local, features.mask
        # Padding has no weight, but it could be NaN. A trace cannot ask whether there is any.
        if not torch.compiler.is_compiling() and not bool(mask.all()):
            local = local.masked_fill(~mask[..., None], 0)
        inputs: Tensor = self.input_norm(local)
        positions = features.positions
        return (inputs if positions is None else inputs + positions), inputs

    def _attention(
        self, slots: Slots, inputs: Inputs, mask: Bool[Tensor, "batch inputs"]
    ) -> Attention:
        """Eq. 2: A = softmax over slots of k q^T / sqrt(D_h); 0 on padding."""
        rows = self.to_queries(self.query_norm(slots))
        queries = rows.view(*rows.shape[:2], self.heads, -1).transpose(1, 2)
        weight = self.to_keys.weight.view(self.heads, -1, inputs.shape[2])
        projected = self._by_head(queries, weight)
        logits = projected.flatten(1, 2) @ inputs.transpose(1, 2)
        logits = logits * queries.shape[-1] ** -0.5
        logits = torch.unflatten(logits, 1, (self.heads, self.size))
        attention: Tensor = logits.softmax(dim=2) * mask[:, None, None]
        return attention

    def _weighted_mean(self, attention: Attention, inputs: Inputs) -> Slots:
        """Eq. 3: A normalised over the inputs, times v W_o."""
        weights = attention / (attention.sum(dim=-1, keepdim=True) + EPSILON)
        mixed = torch.unflatten(weights.flatten(1, 2) @ inputs, 1, (self.heads, self.size))
        weight = self.to_values.weight.view(self.heads, -1, inputs.shape[2]).transpose(1, 2)
        values = self._by_head(mixed, weight)
        update: Tensor = self.to_slots(values.transpose(1, 2).flatten(2))
        return update

    def _by_head(
        self, rows: Float[Tensor, "batch heads slots a"], weight: Float[Tensor, "heads a b"]
    ) -> Float[Tensor, "batch heads slots b"]:
        if self.heads == 1:  # one product for all samples
            return rows @ weight[0]
        return torch.einsum("nhsa,hab->nhsb", rows, weight)

    def _update(self, slots: Slots, update: Slots) -> Slots:
        if self.gru is None:
            return slots + update
        before = slots.expand_as(update).flatten(0, 1)
        after: Tensor = self.gru(update.flatten(0, 1), before)
        return after.view_as(update)
