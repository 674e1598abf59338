"""Your own set module and your own similarity, trained in a plain PyTorch loop.

    python examples/own_set_module.py

A set module maps `Features` to `EmbeddingSets`; a similarity maps (B, K, D) and (C, K, D) to
(B, C). Both work with the losses and the evaluation of diverset. The data are random: each image
has four topics, each text describes one of them.
"""

import torch
from torch import nn
from torch.nn import functional as F

from diverset import EmbeddingSets, Features, evaluate_sets
from diverset.losses import contrastive

DIM = 32
TOPICS = 6 * F.normalize(torch.randn(100, DIM, generator=torch.Generator().manual_seed(1)), dim=-1)


class MaskedQueries(nn.Module):
    """K learned queries, each attends to the inputs on its own (no competition)."""

    def __init__(self, dim: int, size: int) -> None:
        super().__init__()
        self.queries = nn.Parameter(torch.randn(size, dim))
        self.values = nn.Linear(dim, dim)

    def forward(self, features: Features, with_attention: bool = False) -> EmbeddingSets:
        logits = torch.einsum("kd,bnd->bkn", self.queries, features.local) * DIM**-0.5
        attention = logits.masked_fill(~features.mask[:, None], -torch.inf).softmax(dim=-1)
        slots = attention @ self.values(features.local) + features.pooled[:, None]
        maps = (attention[:, None],) if with_attention else ()
        return EmbeddingSets(F.normalize(slots, dim=-1), slots, maps)


def top_two(images: torch.Tensor, texts: torch.Tensor) -> torch.Tensor:
    """The mean of the two largest cosines between elements, (B, C)."""
    cosines = torch.einsum("bkd,cld->bckl", images, texts).flatten(2)
    return cosines.topk(2, dim=-1).values.mean(dim=-1)


def sample(count: int) -> tuple[Features, Features]:
    """Images of four topics, and one text per image that describes one of them."""
    chosen = torch.randint(len(TOPICS), (count, 4))
    local = TOPICS[chosen] + torch.randn(count, 4, DIM) * 0.5
    words = TOPICS[chosen[:, :1]] + torch.randn(count, 3, DIM) * 0.5
    sides = (local, words)
    return tuple(Features(x, torch.ones(x.shape[:2], dtype=torch.bool), x.mean(1)) for x in sides)


torch.manual_seed(0)
image_sets, text_sets = MaskedQueries(DIM, size=4), MaskedQueries(DIM, size=2)
optimizer = torch.optim.Adam([*image_sets.parameters(), *text_sets.parameters()], lr=3e-3)
test = sample(200)


def rsum() -> float:
    with torch.no_grad():
        images, texts = image_sets(test[0]).elements, text_sets(test[1]).elements
    return evaluate_sets(images, texts, torch.arange(200), similarity=top_two, health=False).rsum


print(f"RSUM before training: {rsum():.1f}")
for _ in range(150):
    images, texts = sample(64)
    scores = top_two(image_sets(images).elements, text_sets(texts).elements)
    loss = contrastive(scores, torch.arange(64), temperature=0.1)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
print(f"RSUM after training: {rsum():.1f}")
