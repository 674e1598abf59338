"""FLOPs and latency of scoring: one pair, and the nearest images for a caption.

FLOPs are what torch's own counter sees: two for every multiplication and addition of a matrix
product, nothing for the rest. Models are built but not trained, which costs the same. This module
measures scoring only, as the paper does: encoding is done before. It writes nothing.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from statistics import median
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F
from torch.utils.flop_counter import FlopCounterMode

from diverset.analysis.bench import Bench
from diverset.analysis.methods import OURS
from diverset.analysis.worker import encoding_device
from diverset.config import ModelConfig
from diverset.cross_attention import scan
from diverset.data import Vocabulary
from diverset.inputs import evaluation_mode, join_sets
from diverset.model import Model
from diverset.similarity import smooth_chamfer
from diverset.training.opening import Opened, open_split, read_split

SINGLE, SCAN = "VSE-infinity", "SCAN"
WIDTH, SIZE, REGIONS, WORDS = 1024, 4, 36, 17
TOP, QUERIES, PAIRS = 10, 10, 50


@dataclass(frozen=True)
class Cost:
    """What scoring takes: FLOPs, and milliseconds as the median of several."""

    pair_flops: int
    pair_ms: float
    retrieval_flops: int
    retrieval_ms: float


def pair_flops_of_sets(size: int, other: int, width: int) -> int:
    """All cosines of two sets, the only matrix product of a set similarity.

    >>> pair_flops_of_sets(4, 4, 1024)  # the paper counts a multiplication and addition as one
    32768
    """
    return 2 * size * other * width


def pair_flops_of_scan(queries: int, inputs: int, width: int) -> int:
    """Cosines, the Gram matrix of what is attended to, and the lengths that follow from it."""
    return 2 * (queries * inputs * width + inputs**2 * width + queries * inputs**2)


def count(run: Callable[[], Any]) -> int:
    """FLOPs of a call by torch's counter."""
    with torch.no_grad(), FlopCounterMode(display=False) as counter:
        run()
    return int(counter.get_total_flops())


def at_the_papers_size() -> dict[str, int]:
    """FLOPs of one pair at D = 1024, K = 4, 36 regions, 17 words."""

    def some(count: int) -> Tensor:
        return F.normalize(torch.randn(1, count, WIDTH), dim=-1)

    return {
        SINGLE: count(lambda: smooth_chamfer(some(1), some(1))),
        OURS: count(lambda: smooth_chamfer(some(SIZE), some(SIZE))),
        SCAN: count(lambda: scan(some(REGIONS), some(WORDS))),
    }


def measure(bench: Bench, architecture: ModelConfig) -> Cost:
    """One pair, and the ten nearest images of the split for one caption."""
    data = bench.recipe.data
    words = None
    if architecture.text.kind == "bigru":
        train = read_split(replace(data, images="", regions=""), data.train)
        words = Vocabulary.build(train.captions, data.min_count)
    torch.manual_seed(0)
    model = Model(architecture, words).to(encoding_device(bench.device))
    split = open_split(data, bench.split, architecture, words, bench.store, model=model)
    images, queries = _encode(model, split)

    def retrieve(query: Tensor) -> Tensor:
        return model.similarity(images, query)[:, 0].topk(min(TOP, len(images))).indices

    with torch.no_grad():
        pair = [_timed(lambda: model.score(images[:1], queries[0])) for _ in range(PAIRS)]
        found = [_timed(lambda query=query: retrieve(query)) for query in queries]  # type: ignore[misc]
    return Cost(
        count(lambda: model.score(images[:1], queries[0])),
        1000 * median(pair),
        count(lambda: retrieve(queries[0])),
        1000 * median(found),
    )


@torch.no_grad()
def _encode(model: Model, split: Opened) -> tuple[Tensor, list[Tensor]]:
    """All images; some captions one by one, as queries come, so that none is padded."""
    with evaluation_mode(model):
        images = [
            model.image_encoder(
                split.images.batch(range(start, min(start + 128, len(split.images)))).to(
                    model.device
                )
            ).elements
            for start in range(0, len(split.images), 128)
        ]
        texts = [
            model.text_encoder(split.texts.batch([place]).to(model.device)).elements
            for place in range(min(QUERIES, len(split.texts)))
        ]
    return join_sets(images), texts


def _timed(run: Callable[[], Any]) -> float:
    _wait()
    start = time.perf_counter()
    run()
    _wait()
    return time.perf_counter() - start


def _wait() -> None:
    """A GPU works on while Python goes on: let it finish."""
    if torch.cuda.is_available():
        torch.cuda.synchronize()
