"""SGRAF: similarity graph reasoning and attention filtration (Diao et al., AAAI 2021).

Every word is compared with the regions it attends to, and the caption with the image as a whole.
These comparisons are vectors, not numbers. SGR lets them exchange messages in a graph and reads the
node of the whole; SAF weighs them by attention. The published row averages two separately
trained models, one of each kind.
"""

from __future__ import annotations

import torch
from jaxtyping import Float
from torch import Tensor, nn

from diverset.cross_attention.attention import (
    EPSILON,
    all_products,
    attended_length,
    gram_matrix,
    length,
    masked_softmax,
    normalized,
    overwrite,
    tanh,
    unscaled_weights,
)
from diverset.cross_attention.blocks import MAX_MEMORY, Local, Mask, Side, score_in_blocks
from diverset.cross_attention.linear import linear, operand
from diverset.cross_attention.norms import CaptionNorm, RegionNorm
from diverset.errors import check_choice

KINDS = ("sgr", "saf")
SHARPNESS = 9.0

Map = tuple[Tensor, Tensor | None]
"""Weight and bias of a linear map."""
Round = tuple[list[Map], tuple[Tensor, ...]]
"""Maps from nodes to queries, applied one after the other, and the map of messages."""


class GlobalVector(nn.Module):
    """One vector per item: a weighted sum of its local features, weighted by their mean.

    Args:
        dim: width of local features.
        regions: of an image at most, one batch norm for each; None for texts, which have none.
        dropout: of both projections.
    """

    def __init__(self, dim: int, regions: int | None, dropout: float = 0.4) -> None:
        super().__init__()
        self.local, self.whole = nn.Linear(dim, dim), nn.Linear(dim, dim)
        self.weight, self.dropout = nn.Linear(dim, 1), nn.Dropout(dropout)
        self.local_norm = None if regions is None else RegionNorm(regions)
        self.whole_norm = None if regions is None else nn.BatchNorm1d(dim)

    def forward(self, local: Local, mask: Mask) -> Float[Tensor, "items dim"]:
        real = mask[..., None]
        mean = (local * real).sum(dim=1) / mask.sum(dim=1, keepdim=True)
        inputs = linear(local, self.local.weight, self.local.bias)
        whole = self.whole(mean)
        if self.local_norm is not None and self.whole_norm is not None:
            inputs, whole = self.local_norm(inputs, mask), self.whole_norm(whole)
        inputs, whole = self.dropout(tanh(inputs)), self.dropout(tanh(whole))
        logits = self.weight(inputs * whole[:, None]).squeeze(-1)
        weights = masked_softmax(logits, mask, dim=1)
        return normalized(torch.einsum("bn,bnd->bd", weights, local * real))


class GraphReasoning(nn.Module):
    """SGR: three rounds of messages between all comparisons of a pair; reads the global node.

    Keys have no bias: the published one shifts all logits of a softmax and changes nothing.
    """

    def __init__(self, width: int, rounds: int = 3) -> None:
        super().__init__()
        self.query = nn.ModuleList(nn.Linear(width, width) for _ in range(rounds))
        self.key = nn.ModuleList(nn.Linear(width, width, bias=False) for _ in range(rounds))
        self.message = nn.ModuleList(nn.Linear(width, width) for _ in range(rounds))

    def rounds(self, nodes: int) -> list[Round]:
        """The maps of each round; with many nodes, queries times keys are one product, not two."""
        rounds: list[Round] = []
        for query, key, message in zip(self.query, self.key, self.message, strict=True):
            (keys,), (queries, bias), messages = (
                tuple(part.parameters()) for part in (key, query, message)
            )
            edges: list[Map] = [(queries, bias), (keys.T, None)]
            if nodes > len(bias):
                edges = [(keys.T @ queries, keys.T @ bias)]
            rounds.append((edges, messages))
        return rounds

    def global_node(
        self, nodes: Tensor, mask: Mask, rounds: list[Round]
    ) -> Float[Tensor, "images texts width"]:
        """The node of the whole after all rounds."""
        nodes = operand(nodes)
        for step, (maps, message) in enumerate(rounds, start=1):
            # The last round is only read at the global node.
            queries = nodes[:, :, :1] if step == len(rounds) else nodes
            for weight, bias in maps:
                queries = linear(queries, weight, bias)
            edges = masked_softmax(queries @ nodes.transpose(-1, -2), mask[None, :, None], dim=-1)
            nodes = overwrite(linear(edges @ nodes, *message), Tensor.relu)
        return nodes[:, :, 0]


class AttentionFiltration(nn.Module):
    """SAF: a weighted mean of all comparisons of a pair."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.weight, self.norm = nn.Linear(width, 1), CaptionNorm()

    def forward(self, nodes: Tensor, mask: Mask) -> tuple[Tensor, Tensor, Tensor]:
        """The filtered comparison, and the batch-norm statistics of every caption."""
        logits, mean, variance = self.norm(self.weight(nodes).squeeze(-1), mask)
        weights = logits.sigmoid() * mask
        weights = weights / (weights.sum(dim=-1, keepdim=True) + EPSILON)
        return normalized((weights[..., None] * nodes).sum(dim=2)), mean, variance


class Sgraf(nn.Module):
    """SGR or SAF similarity of every image to every text, in (0, 1).

    Args:
        kind: "sgr" or "saf"; the published SGRAF is the mean of one model of each.
        dim: width of local features.
        max_regions: largest number of regions (36 published), for the batch norm of each.
        width: m, width of a comparison.
        dropout: of the global vectors.
        max_memory: bytes for one block of pairs.
    """

    def __init__(
        self,
        kind: str,
        dim: int,
        max_regions: int = 36,
        width: int = 256,
        dropout: float = 0.4,
        max_memory: int = 4 * MAX_MEMORY,
    ) -> None:
        super().__init__()
        check_choice("kind", kind, KINDS)
        self.max_memory = max_memory
        self.image_vector = GlobalVector(dim, max_regions, dropout)
        self.text_vector = GlobalVector(dim, None, dropout)
        self.local_comparison, self.global_comparison = nn.Linear(dim, width), nn.Linear(dim, width)
        self.graph = GraphReasoning(width) if kind == "sgr" else None
        self.filtration = AttentionFiltration(width) if kind == "saf" else None
        self.score = nn.Linear(width, 1)
        for module in self.modules():
            if isinstance(module, nn.Linear):
                nn.init.xavier_uniform_(module.weight)
                if module.bias is not None:
                    nn.init.zeros_(module.bias)

    def forward(
        self, images: Local, image_mask: Mask, texts: Local, text_mask: Mask
    ) -> Float[Tensor, "images texts"]:
        sides = (
            Side(images, image_mask, (self.image_vector(images, image_mask),)),
            Side(texts, text_mask, (self.text_vector(texts, text_mask)[:, None],)),
        )
        nodes = len(images) * text_mask.numel()
        rounds = None if self.graph is None else self.graph.rounds(nodes)
        width = self.local_comparison.out_features
        floats = texts.shape[1] * (4 * images.shape[1] + 8 * width)
        if torch.is_grad_enabled():
            floats += 4 * texts.shape[1] * images.shape[2]
        scores, *statistics = score_in_blocks(
            lambda images, texts: self._score(images, texts, rounds),
            *sides, floats, self.max_memory, _prepare, whole_columns=self.training,
        )  # fmt: skip
        if self.training and self.filtration is not None:
            self.filtration.norm.update(*statistics)
        return scores

    def _score(self, images: Side, texts: Side, rounds: list[Round] | None) -> tuple[Tensor, ...]:
        nodes = self._compare(images, texts)
        mask = torch.cat([torch.ones_like(texts.mask[:, :1]), texts.mask], dim=1)
        statistics: list[Tensor] = []
        if self.graph is not None and rounds is not None:
            read = self.graph.global_node(nodes, mask, rounds)
        # Scores of 8 bits would have many ties.
        with torch.autocast(nodes.device.type, enabled=False):
            if self.filtration is not None:
                read, *statistics = self.filtration(nodes.to(self.score.weight.dtype), mask)
            scores = self.score(read.to(self.score.weight.dtype)).squeeze(-1).sigmoid()
        return scores, *statistics

    def _compare(self, images: Side, texts: Side) -> Float[Tensor, "images texts nodes width"]:
        """The comparison of the whole, followed by one per word."""
        regions, region_mask, (image_vectors, gram, values) = images
        words, _, (text_vectors,) = texts
        weights = unscaled_weights(all_products(regions, words), region_mask, SHARPNESS)
        scale = attended_length(weights, gram) + EPSILON * weights.sum(dim=1)
        weights = overwrite(weights, Tensor.div, scale[:, None]).flatten(2).transpose(1, 2)
        by_word = self._compare_words(weights, values, words)
        difference = (image_vectors[:, None] - text_vectors.transpose(0, 1)).square()
        whole = self.global_comparison
        by_whole = linear(difference, whole.weight, whole.bias)
        nodes = torch.cat([by_whole[:, :, None], by_word], dim=2)
        return overwrite(nodes, Tensor.div, length(nodes, -1) + EPSILON)

    def _compare_words(
        self, weights: Float[Tensor, "images rows regions"], values: Tensor, words: Local
    ) -> Float[Tensor, "images texts words width"]:
        """A comparison per word with what it attended to; without gradients image by image, so
        that differences stay in the cache."""
        local, rows = self.local_comparison, words.flatten(0, 1)
        if torch.is_grad_enabled():
            differences = (weights @ values.transpose(1, 2) - rows).square()
            by_row = linear(differences, local.weight, local.bias)
        else:
            rows, weight, bias = operand(rows), operand(local.weight), operand(local.bias)
            by_row = rows.new_empty(len(values), len(rows), local.out_features)
            for image, image_weights in enumerate(operand(weights).contiguous()):
                differences = linear(image_weights, values[image]).sub_(rows).square_()
                by_row[image] = linear(differences, weight, bias)
        return by_row.view(len(values), *words.shape[:2], -1)


def _prepare(images: Side) -> Side:
    """Add Gram matrices and transposed regions to the global vectors."""
    transposed = operand(images.local.transpose(1, 2))
    if not torch.is_grad_enabled():
        transposed = transposed.contiguous()
    return images._replace(prepared=(*images.prepared, gram_matrix(images.local), transposed))
