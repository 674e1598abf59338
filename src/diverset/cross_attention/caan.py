"""CAAN: context-aware attention network (Zhang et al., CVPR 2020). Our reconstruction.

No code was published, and the paper leaves sizes and normalisation open; numbers measured with it
must say so. Attention over regions depends on the words and on the other regions, and the
reverse; the score is the inner product of the two attended vectors.
"""

from __future__ import annotations

import torch
from jaxtyping import Float
from torch import Tensor, nn

from diverset.cross_attention.attention import all_products, length, masked_softmax, tanh
from diverset.cross_attention.blocks import MAX_MEMORY, Local, Mask, Side, score_in_blocks
from diverset.cross_attention.linear import linear


class Caan(nn.Module):
    """CAAN similarity of every image to every text (Eq. 5-17 of its paper, semantics-based).

    Args:
        dim: width of local features.
        inner_width: z, width of the attention (the paper's parameter count suggests up to 128).
        max_memory: bytes for one block of pairs.
    """

    def __init__(self, dim: int, inner_width: int = 128, max_memory: int = MAX_MEMORY) -> None:
        super().__init__()
        self.max_memory = max_memory
        self.affinity = nn.Parameter(torch.empty(dim, dim))
        self.image_own, self.image_other, self.text_own, self.text_other = (
            nn.Parameter(torch.empty(dim, inner_width)) for _ in range(4)
        )
        self.image_weight = nn.Parameter(torch.empty(inner_width, 1))
        self.text_weight = nn.Parameter(torch.empty(inner_width, 1))
        for parameter in self.parameters():
            nn.init.xavier_uniform_(parameter)

    def forward(
        self, images: Local, image_mask: Mask, texts: Local, text_mask: Mask
    ) -> Float[Tensor, "images texts"]:
        regions, words, dim = images.shape[1], texts.shape[1], images.shape[2]
        width = self.image_own.shape[1]
        floats = 10 * regions * words + 2 * (regions + 2 * words) * width + 3 * dim
        sides = Side(images, image_mask), self._prepare_texts(texts, text_mask)
        prepare = self._prepare_images
        return score_in_blocks(self._score, *sides, floats, self.max_memory, prepare)[0]

    def _prepare_images(self, images: Side) -> Side:
        """Add the images' part of the attention over regions and of that over words."""
        own, other = linear(images.local, self.image_own.T), linear(images.local, self.text_other.T)
        return images._replace(prepared=(own, other))

    def _prepare_texts(self, texts: Local, mask: Mask) -> Side:
        """Texts with projected words, and with their part of both attentions."""
        texts = texts.masked_fill(~mask[..., None], 0)
        own, other = linear(texts, self.text_own.T), linear(texts, self.image_other.T)
        return Side(texts, mask, (linear(texts, self.affinity), own, other))

    def _score(self, images: Side, texts: Side) -> tuple[Tensor]:
        regions, words = self._attention(images, texts)
        image_vectors = regions @ images.local
        text_vectors = torch.einsum("bcm,cmd->bcd", words, texts.local)
        # Products of bfloat16 summed in bfloat16 would give many equal scores.
        return ((image_vectors.to(texts.local.dtype) * text_vectors).sum(dim=-1),)

    def _attention(
        self, images: Side, texts: Side
    ) -> tuple[Float[Tensor, "images texts regions"], Float[Tensor, "images texts words"]]:
        """The attention over regions and over words of every pair."""
        regions, region_mask, (region_own, region_other) = images
        _, word_mask, (projected, word_own, word_other) = texts
        # (images, regions, texts, words); 0 at padding, which is 0 in the products.
        affinity = tanh(all_products(regions, projected)).relu()
        by_word = affinity / length(affinity, 1)  # H_uv: l2 over regions, per word
        by_region = affinity / length(affinity, 3)  # H_vu: over words, per region
        # H_v V Q1 = N (N^T V Q1) with N, the l2-normalised rows of H_uv.
        unit = by_word / length(by_word, 3)
        summary = _by_image(unit, region_own)
        joined = torch.cat([unit, by_word], dim=3).transpose(1, 2)
        values = torch.cat([summary, word_other.expand_as(summary)], dim=2)
        hidden = joined @ values  # (images, texts, regions, width)
        logits = (tanh(hidden) @ self.image_weight).squeeze(-1)
        region_attention = masked_softmax(logits, region_mask[:, None], dim=-1)
        # H_u = N N^T with N, the l2-normalised rows of H_vu.
        unit = (by_region / length(by_region, 1)).transpose(1, 2)
        hidden = (unit.transpose(2, 3) @ unit) @ word_own + _by_image(by_region, region_other)
        logits = (tanh(hidden) @ self.text_weight).squeeze(-1)
        return region_attention, masked_softmax(logits, word_mask, dim=-1)


def _by_image(
    weights: Float[Tensor, "images regions texts words"],
    values: Float[Tensor, "images regions width"],
) -> Float[Tensor, "images texts words width"]:
    """Sums over the regions of each image: one product per image for all texts."""
    sums = weights.flatten(2).transpose(1, 2) @ values
    return sums.view(len(weights), *weights.shape[2:], -1)
