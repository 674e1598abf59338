"""FLOPs by torch's counter against closed forms."""

import pytest
import torch
from support import random_sets

from diverset.analysis.flops import (
    at_the_papers_size,
    count,
    measure,
    pair_flops_of_scan,
    pair_flops_of_sets,
)
from diverset.analysis.methods import OURS, methods
from diverset.cross_attention import scan
from diverset.similarity import MatchProbability, chamfer, mil, smooth_chamfer


@pytest.mark.parametrize("similarity", [smooth_chamfer, chamfer, mil, MatchProbability()])
@pytest.mark.parametrize(("size", "other", "width"), [(1, 1, 64), (4, 4, 64), (3, 5, 16)])
def test_a_pair_of_sets_costs_its_cosines(similarity, size, other, width):
    images, texts = random_sets(1, size, width), random_sets(1, other, width)
    found = count(lambda: similarity(images, texts))
    assert found == pair_flops_of_sets(size, other, width)


@pytest.mark.parametrize(("regions", "words", "width"), [(36, 17, 64), (7, 5, 16)])
def test_a_pair_of_scan_has_a_closed_form(regions, words, width):
    images, texts = random_sets(1, regions, width), random_sets(1, words, width)
    found = count(lambda: scan(images, texts))
    assert found == pair_flops_of_scan(words, regions, width)


def test_the_papers_size_gives_the_papers_numbers():
    found = at_the_papers_size()
    ours, single = found[OURS], found["VSE-infinity"]
    assert ours == 2 * 16_384 and ours / single == 16  # the paper's 16.4K, counted twice
    assert found["SCAN"] == pair_flops_of_scan(17, 36, 1024)
    assert found["SCAN"] / single > 1000


def test_scan_really_runs(bench, monkeypatch):
    import diverset.model

    calls = []
    original = diverset.model.scan

    def spy(images, texts, **options):
        calls.append(tuple(texts.shape))
        return original(images, texts, **options)

    monkeypatch.setattr(diverset.model, "scan", spy)
    row = next(one for one in methods(bench.recipe) if one.name == "SCAN")
    found = measure(bench, bench.recipe_of(row).model)
    assert len(calls) > 10 and all(shape[1] > 4 for shape in calls)
    cells = found.retrieval_flops / found.pair_flops
    assert cells == pytest.approx(6)  # six images
    assert found.pair_ms > 0 and found.retrieval_ms > 0
    assert torch.is_grad_enabled()
