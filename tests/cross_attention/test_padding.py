"""Padding never changes a score, and scoring in blocks equals scoring at once."""

from collections.abc import Callable

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor, nn
from torch.nn import functional as F

from diverset.cross_attention import Caan, Imram, Naaf, Sgraf, blocks
from diverset.errors import InputError, ShapeError

DIM = 8
SYSTEMS: dict[str, Callable[[], nn.Module]] = {
    "imram": lambda: Imram(DIM),
    "caan": lambda: Caan(DIM, 4),
    "sgr": lambda: Sgraf("sgr", DIM, max_regions=6, width=4),
    "saf": lambda: Sgraf("saf", DIM, max_regions=6, width=4),
    "naaf": Naaf,
}


def make_system(name: str) -> nn.Module:
    torch.manual_seed(0)
    return SYSTEMS[name]().double().eval()


def random_local(counts: list[int], seed: int, padding: float) -> tuple[Tensor, Tensor]:
    """l2-normalised inputs with arbitrary values in the padded rows."""
    generator = torch.Generator().manual_seed(seed)
    size = len(counts), max(counts), DIM
    local = F.normalize(torch.randn(size, generator=generator, dtype=torch.float64), dim=-1)
    mask = torch.arange(max(counts)) < torch.tensor(counts)[:, None]
    return torch.where(mask[..., None], local, padding), mask


@pytest.mark.parametrize("name", SYSTEMS)
@settings(max_examples=15, deadline=None)
@given(
    regions=st.lists(st.integers(1, 5), min_size=1, max_size=3),
    words=st.lists(st.integers(1, 5), min_size=1, max_size=3),
    seed=st.integers(0, 1000),
    padding=st.sampled_from([0.0, 3.0]),
)
def test_padding_does_not_change_scores(name: str, regions, words, seed: int, padding: float):
    system = make_system(name)
    images, image_mask = random_local(regions, seed, padding)
    texts, text_mask = random_local(words, seed + 1, padding)
    with torch.no_grad():
        scores = system(images, image_mask, texts, text_mask)
        for i, count in enumerate(regions):
            for j, length in enumerate(words):
                alone = system(
                    images[i : i + 1, :count], image_mask[i : i + 1, :count],
                    texts[j : j + 1, :length], text_mask[j : j + 1, :length],
                )  # fmt: skip
                torch.testing.assert_close(scores[i, j], alone[0, 0], rtol=0, atol=1e-12)


@pytest.mark.parametrize("name", SYSTEMS)
def test_blocks_equal_one_shot_with_gradients(name: str):
    images, image_mask = random_local([3, 5, 2], 0, 0.0)
    texts, text_mask = random_local([4, 1, 5, 2], 1, 0.0)
    results = []
    for memory in (2**29, 1):
        system = make_system(name)
        system.max_memory = memory
        local = images.clone().requires_grad_(), texts.clone().requires_grad_()
        scores = system(local[0], image_mask, local[1], text_mask)
        results.append((scores, *torch.autograd.grad(scores.square().sum(), local)))
    for whole, parts in zip(*results, strict=True):
        torch.testing.assert_close(parts, whole, rtol=0, atol=1e-12)


@pytest.mark.parametrize("pairs", [1, 3, 7])
@pytest.mark.parametrize("name", SYSTEMS)
def test_tiles_without_gradients_equal_one_shot_with_gradients(name: str, pairs: int, monkeypatch):
    images, image_mask = random_local([3, 5, 2, 1], 0, 7.0)
    texts, text_mask = random_local([4, 1, 5, 2, 5], 1, 7.0)
    system = make_system(name)
    expected = system(images, image_mask, texts, text_mask)
    tiles = []
    score_tiles = blocks._score_tiles

    def few_pairs(score, images, texts, _, prepare):
        def recorded(*sides):
            scores = score(*sides)
            tiles.append(scores[0].numel())
            return scores

        return score_tiles(recorded, images, texts, pairs, prepare)

    monkeypatch.setattr(blocks, "_score_tiles", few_pairs)
    with torch.no_grad():
        scores = system(images, image_mask, texts, text_mask)
    assert sum(tiles) == 20 and max(tiles) <= pairs
    torch.testing.assert_close(scores, expected.detach(), rtol=0, atol=1e-12)


@pytest.mark.parametrize("name", SYSTEMS)
def test_real_inputs_after_padding_count(name: str):
    images, image_mask = random_local([3, 3], 0, 0.0)
    texts, text_mask = random_local([4, 4, 4], 1, 0.0)
    text_mask[:, 1], image_mask[0, 0] = False, False
    with torch.no_grad():
        scores = make_system(name)(images, image_mask, texts, text_mask)
        alone = make_system(name)(
            images[1:], image_mask[1:], texts[:1, [0, 2, 3]], torch.ones(1, 3, dtype=torch.bool)
        )
    torch.testing.assert_close(scores[1, 0], alone[0, 0], rtol=0, atol=1e-12)


@pytest.mark.parametrize("name", SYSTEMS)
def test_bad_masks_are_named(name: str):
    images, mask = random_local([3, 2], 0, 0.0)
    with pytest.raises(ShapeError, match="texts have shape"):
        make_system(name)(images, mask, images, mask[:, :1])
    with pytest.raises(InputError, match="has items without inputs; give booleans"):
        make_system(name)(images, mask & False, images, mask)
