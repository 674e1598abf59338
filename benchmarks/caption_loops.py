"""Cross-attention scoring as published evaluation codes do it: caption by caption.

Each function takes a shard of images (images, regions, D) and returns what scores one caption of
unpadded words (words, D) against all of them, written from the equations with the weights of our
modules. The order of operations and the memory layout are those of the published SCAN and SGRAF:
words are repeated for every image, attention weights are copied when transposed, attended vectors
are a transposed view of (D, words), and vectors of whole images are computed once per shard of 100
(SGRAF) to 128 (SCAN) images and captions. These are comparisons for speed and a check of the
scores, nothing more.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor
from torch.nn import functional as F

from diverset.cross_attention import Caan, Imram, Naaf, Sgraf

ScoreCaption = Callable[[Tensor], Tensor]
"""From the words of one caption to a score per image of the shard."""
CaptionLoop = Callable[[Tensor], ScoreCaption]
"""From the images of a shard to the function that scores one caption."""
EPSILON = 1e-8


@torch.no_grad()
def loop_scores(loop: CaptionLoop, images: Tensor, texts: Tensor, mask: Tensor) -> Tensor:
    score = loop(images)
    return torch.stack([score(text[real]) for text, real in zip(texts, mask, strict=True)], dim=1)


def l2norm(vectors: Tensor, dim: int = -1) -> Tensor:
    return vectors / (vectors.pow(2).sum(dim=dim, keepdim=True).sqrt() + EPSILON)


def cosine(vectors: Tensor, others: Tensor) -> Tensor:
    lengths = torch.linalg.vector_norm(vectors, dim=2) * torch.linalg.vector_norm(others, dim=2)
    return (vectors * others).sum(dim=2) / lengths.clamp_min(EPSILON)


def attend(queries: Tensor, context: Tensor, sharpness: float) -> Tensor:
    """Attended vectors of a batch of pairs, (pairs, queries, D): a view of (pairs, D, queries)."""
    relevance = l2norm(F.leaky_relu(torch.bmm(context, queries.transpose(1, 2)), 0.1), dim=2)
    weights = (relevance.transpose(1, 2).contiguous() * sharpness).softmax(dim=2)
    weights = weights.transpose(1, 2).contiguous()
    return torch.bmm(context.transpose(1, 2), weights).transpose(1, 2)


def scan_loop(images: Tensor) -> ScoreCaption:
    """Text to image, log-sum-exp."""

    def score(words: Tensor) -> Tensor:
        queries = words.repeat(len(images), 1, 1)
        cosines = cosine(queries, attend(queries, images, 9.0).contiguous())
        return (6.0 * cosines).exp().sum(dim=1).log() / 6.0

    return score


def imram_loop(module: Imram) -> CaptionLoop:
    def direction(memory: torch.nn.Module, originals: Tensor, context: Tensor) -> Tensor:
        queries, total = originals, torch.zeros(len(originals))
        for _ in range(module.steps):
            attended = attend(queries, context, module.sharpness)
            total = total + cosine(originals, attended).mean(dim=1)
            joined = torch.cat([queries, attended], dim=2)
            gate, new = memory.gate(joined).sigmoid(), memory.linear(joined).tanh()
            queries = gate * queries + (1 - gate) * new
        return total

    def start(images: Tensor) -> ScoreCaption:
        def score(words: Tensor) -> Tensor:
            texts = words.repeat(len(images), 1, 1)
            by_text = direction(module.text_memory, texts, images)
            return by_text + direction(module.image_memory, images, texts)

        return score

    return start


def sgraf_loop(module: Sgraf) -> CaptionLoop:
    def reason(nodes: Tensor) -> Tensor:
        graph = module.graph
        for query, key, message in zip(graph.query, graph.key, graph.message, strict=True):
            edges = torch.bmm(query(nodes), key(nodes).transpose(1, 2)).softmax(dim=2)
            nodes = message(torch.bmm(edges, nodes)).relu()
        return nodes[:, 0]

    def filtrate(nodes: Tensor) -> Tensor:
        norm = module.filtration.norm
        logits = F.batch_norm(
            module.filtration.weight(nodes).transpose(1, 2),
            norm.running_mean, norm.running_var, norm.weight, norm.bias,
        )  # fmt: skip
        weights = logits.sigmoid()
        weights = weights / (weights.sum(dim=2, keepdim=True) + EPSILON)
        return l2norm(torch.bmm(weights, nodes)[:, 0])

    read = reason if module.graph is not None else filtrate

    def start(images: Tensor) -> ScoreCaption:
        image_vectors = module.image_vector(images, torch.ones(images.shape[:2], dtype=torch.bool))

        def score(words: Tensor) -> Tensor:
            queries, real = words.repeat(len(images), 1, 1), torch.ones(1, len(words)).bool()
            text_vector = module.text_vector(words[None], real)
            attended = l2norm(attend(queries, images, 9.0))
            local = l2norm(module.local_comparison((attended - queries).pow(2)))
            whole = l2norm(module.global_comparison((image_vectors - text_vector).pow(2)))
            nodes = torch.cat([whole[:, None], local], dim=1)
            return module.score(read(nodes))[:, 0].sigmoid()

        return score

    return start


def naaf_loop(module: Naaf) -> CaptionLoop:
    """The rule of evaluation."""

    def start(images: Tensor) -> ScoreCaption:
        threshold, sharpness = float(module.safe_threshold), module.sharpness

        def score(words: Tensor) -> Tensor:
            queries = words.repeat(len(images), 1, 1)
            cosines = torch.bmm(queries, images.transpose(1, 2))
            best = cosines.amax(dim=2) - threshold
            propagated = best @ (5.0 * words @ words.T).softmax(dim=1).T
            negative = torch.where(propagated < 0, best, 0)
            weights = torch.where(cosines > threshold, (sharpness * (cosines - threshold)).exp(), 0)
            weights = weights / (weights.sum(dim=2, keepdim=True) + EPSILON)
            by_feature = (queries * l2norm(torch.bmm(weights, images))).sum(dim=2)
            relevance = l2norm(F.leaky_relu(cosines, 0.1), dim=1)
            by_relevance = (cosines * (sharpness * relevance).softmax(dim=2)).sum(dim=2)
            return (negative + by_feature + by_relevance).mean(dim=1)

        return score

    return start


def caan_loop(module: Caan) -> CaptionLoop:
    def unit(values: Tensor, dim: int) -> Tensor:
        return values / values.pow(2).sum(dim=dim, keepdim=True).sqrt().clamp_min(EPSILON)

    def start(images: Tensor) -> ScoreCaption:
        def score(words: Tensor) -> Tensor:
            texts = words.repeat(len(images), 1, 1)
            affinity = torch.bmm(images, (words @ module.affinity.T).T.expand(len(images), -1, -1))
            affinity = affinity.tanh().relu()
            by_word, by_region = unit(affinity, 1), unit(affinity, 2).transpose(1, 2)
            own_regions, own_words = unit(by_word, 2), unit(by_region, 2)
            own = torch.bmm(torch.bmm(own_regions, own_regions.transpose(1, 2)), images)
            hidden = own @ module.image_own + torch.bmm(by_word, texts) @ module.image_other
            regions = (hidden.tanh() @ module.image_weight).softmax(dim=1)
            own = torch.bmm(torch.bmm(own_words, own_words.transpose(1, 2)), texts)
            hidden = own @ module.text_own + torch.bmm(by_region, images) @ module.text_other
            attention = (hidden.tanh() @ module.text_weight).softmax(dim=1)
            return ((regions * images).sum(dim=1) * (attention * texts).sum(dim=1)).sum(dim=1)

        return score

    return start
