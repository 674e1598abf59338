"""FLOPs by torch's counter against closed forms."""

import pytest
import torch
from support import random_sets

from diverset.config import SimilarityConfig
from diverset.cross_attention import nonzero_rows, scan
from diverset.data import Vocabulary
from diverset.model.build import cross_attention_module
from diverset.recipe.datasets import read_split
from diverset.reproduce.methods import methods
from diverset.reproduce.pair_flops import cross_attention_flops, set_flops
from diverset.reproduce.paper_numbers import OURS
from diverset.reproduce.scoring_cost import (
    SYSTEMS,
    count_flops,
    flops_at_paper_size,
    measure_cost,
)
from diverset.similarity import MatchProbability, chamfer, mil, smooth_chamfer

CROSS_ATTENTION = (
    SimilarityConfig(kind="scan"),
    SimilarityConfig(kind="scan", direction="i2t"),
    SimilarityConfig(kind="imram"),
    SimilarityConfig(kind="imram", mode="text", steps=1),
    SimilarityConfig(kind="imram", mode="image", steps=2),
    SimilarityConfig(kind="sgr", inner_width=24),
    SimilarityConfig(kind="saf", inner_width=12),
    SimilarityConfig(kind="naaf"),
    SimilarityConfig(kind="caan", inner_width=6),
)


@pytest.mark.parametrize("similarity", [smooth_chamfer, chamfer, mil, MatchProbability()])
@pytest.mark.parametrize(("size", "other", "width"), [(1, 1, 64), (4, 4, 64), (3, 5, 16)])
def test_a_pair_of_sets_costs_its_cosines(similarity, size, other, width):
    images, texts = random_sets(1, size, width), random_sets(1, other, width)
    flops = count_flops(lambda: similarity(images, texts))
    assert flops == set_flops(size, other, width)


@pytest.mark.parametrize("gradients", [False, True])
@pytest.mark.parametrize("config", CROSS_ATTENTION, ids=lambda c: f"{c.kind}-{c.mode}-{c.steps}")
@pytest.mark.parametrize(("regions", "words", "dim"), [(36, 17, 64), (7, 5, 16)])
def test_a_pair_under_cross_attention_has_a_closed_form(regions, words, dim, config, gradients):
    images, texts = random_sets(1, regions, dim), random_sets(1, words, dim)
    local = images, nonzero_rows(images), texts, nonzero_rows(texts)
    module = cross_attention_module(dim, config)

    def score():
        with torch.set_grad_enabled(gradients):  # other kernels, the same products
            if module is None:
                return scan(*local, direction=config.direction)
            return module.eval()(*local)

    assert count_flops(score) == cross_attention_flops(config, regions, words, dim)


def test_the_papers_size_gives_the_papers_numbers():
    flops = flops_at_paper_size()
    assert set(SYSTEMS) <= set(flops)
    ours, single = flops[OURS], flops["VSE-infinity"]
    assert ours == 2 * 16_384 and ours / single == 16  # the paper's 16.4K, counted twice
    assert all(flops[name] / single > 1000 for name in ("SCAN", "CAAN", "IMRAM", "SGRAF", "NAAF"))


def test_the_cost_of_scan_is_that_of_its_cross_attention(experiment):
    variant = next(variant for variant in methods(experiment.recipe) if variant.name == "SCAN")
    config = experiment.recipe_for(variant).model
    cost = measure_cost(experiment, config)
    caption = read_split(experiment.recipe.data, "val").captions[0]
    words = len(Vocabulary.build([caption], 1).encode(caption))
    cells = (config.image.backbone_size // 8) ** 2
    assert cost.pair_flops == cross_attention_flops(config.similarity, cells, words, config.dim)
    assert cost.retrieval_flops == 6 * cost.pair_flops  # six images
    assert cost.pair_ms > 0 and cost.retrieval_ms > 0
