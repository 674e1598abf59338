"""FLOPs and latency of scoring: one pair, and the nearest images for a caption.

FLOPs are those of torch's own counter: two for every multiplication and addition of a matrix
product, nothing for the rest. Models are built but not trained, which costs the same. Only scoring
is measured, as in the paper; encoding is done before.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import astuple, dataclass
from statistics import median
from typing import Any

import torch
from torch import Tensor
from torch.utils.flop_counter import FlopCounterMode

from diverset.config import ModelConfig, SimilarityConfig
from diverset.data import Vocabulary
from diverset.model import Model
from diverset.recipe.datasets import read_split
from diverset.recipe.encode import IMAGE_BATCH
from diverset.recipe.splits import SplitData, open_split
from diverset.reproduce.experiment import Experiment
from diverset.reproduce.methods import MEANS, methods
from diverset.reproduce.pair_flops import cross_attention_flops, set_flops
from diverset.reproduce.paper_numbers import OURS
from diverset.runtime.device import resolve_device
from diverset.runtime.torch_private import onednn_linear_flops

SINGLE, SCAN = "VSE-infinity", "SCAN"
SYSTEMS = (
    "VSE++", SINGLE, "VSRN", "PVSE", "PCME", SCAN, "CAAN", "IMRAM", "SGRAF", "NAAF", OURS,
)  # fmt: skip
WIDTH, REGIONS, WORDS = 1024, 36, 17  # D and inputs of the paper
TOP, QUERIES, PAIR_REPEATS = 10, 10, 50


@dataclass(frozen=True)
class Cost:
    """FLOPs and median milliseconds of scoring."""

    pair_flops: int
    pair_ms: float
    retrieval_flops: int
    retrieval_ms: float


def count_flops(run: Callable[[], Any]) -> int:
    """FLOPs of a call by torch's counter."""
    counter = FlopCounterMode(display=False, custom_mapping=onednn_linear_flops())
    with torch.no_grad(), counter:
        run()
    return int(counter.get_total_flops())


def flops_at_paper_size() -> dict[str, int]:
    """FLOPs of one pair of every system at D = 1024, 36 regions and 17 words."""
    sizes = {"VSE++": 1, SINGLE: 1, "VSRN": 1, "PVSE": 2, "PCME": 7, OURS: 4}
    flops = {name: set_flops(size, size, WIDTH) for name, size in sizes.items()}
    for name in (SCAN, "CAAN", "IMRAM", "SGR", "SAF", "NAAF"):
        config = SimilarityConfig(kind=name.lower())
        flops[name] = cross_attention_flops(config, REGIONS, WORDS, WIDTH)
    for name, parts in MEANS.items():
        flops[name] = sum(flops[part] for part in parts)
    return flops


def measure_costs(experiment: Experiment) -> dict[str, Cost]:
    """The cost of every system of the comparison, for the models of a recipe."""
    variants = {variant.name: variant for variant in methods(experiment.recipe)}
    costs: dict[str, Cost] = {}
    for name in SYSTEMS:
        parts = [
            measure_cost(experiment, experiment.recipe_for(variants[part]).model)
            for part in MEANS.get(name, (name,))
        ]
        costs[name] = Cost(*map(sum, zip(*map(astuple, parts), strict=True)))
    return costs


def measure_cost(experiment: Experiment, architecture: ModelConfig) -> Cost:
    """Cost of one pair, and of the ten nearest images of the split for one caption."""
    data = experiment.recipe.data
    vocabulary = None
    if architecture.text.kind == "bigru":
        train = read_split(data, data.train, captions_only=True)
        vocabulary = Vocabulary.build(train.captions, data.min_count)
    torch.manual_seed(0)
    model = Model(architecture, vocabulary).to(resolve_device(experiment.device)).eval()
    split = open_split(data, experiment.split, model, experiment.cache)
    images, queries = _encode(model, split)

    def score_pair() -> Tensor:
        return model.score(images[:1], queries[0])

    def retrieve(query: Tensor) -> Tensor:
        return model.similarity(images, query)[:, 0].topk(min(TOP, len(images))).indices

    with torch.no_grad():
        pair_seconds = [_seconds(score_pair) for _ in range(PAIR_REPEATS)]
        retrieval_seconds = [_seconds(retrieve, query) for query in queries]
    return Cost(
        count_flops(score_pair),
        1000 * median(pair_seconds),
        count_flops(lambda: retrieve(queries[0])),
        1000 * median(retrieval_seconds),
    )


def _encode(model: Model, split: SplitData) -> tuple[Tensor, list[Tensor]]:
    """All images; some captions one by one, so that none is padded."""
    images, texts = range(len(split.images)), range(len(split.texts))
    starts = images[::IMAGE_BATCH]
    return (
        model.image_encoder.encode(split.images.batch(images[i : i + IMAGE_BATCH]) for i in starts),
        [model.text_encoder.encode([split.texts.batch([text])]) for text in texts[:QUERIES]],
    )


def _seconds(run: Callable[..., Any], *args: Any) -> float:
    _synchronize()
    start = time.perf_counter()
    run(*args)
    _synchronize()
    return time.perf_counter() - start


def _synchronize() -> None:
    """Wait for the GPU, which works asynchronously."""
    if torch.cuda.is_available():
        torch.cuda.synchronize()
