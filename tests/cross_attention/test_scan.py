import math

import pytest
import torch
from support import random_sets
from torch.nn import functional as F

from diverset.cross_attention import nonzero_rows, scan
from diverset.errors import InputError, OptionError, ShapeError


def naive(queries, contexts, attention, sharpness, pooling):
    """One pair, with the attended vectors written out."""
    cosines = queries @ contexts.T
    raw = F.leaky_relu(cosines, 0.1)
    raw = raw / (raw.norm(dim=0, keepdim=True) + 1e-8)
    attended = (attention * raw).softmax(dim=1) @ contexts
    cosines = F.cosine_similarity(queries, attended, dim=1)
    if pooling == "mean":
        return cosines.mean()
    return (sharpness * cosines).exp().sum().log() / sharpness


@pytest.mark.parametrize("attention", [4.0, 900.0])
@pytest.mark.parametrize("pooling", ["lse", "mean"])
@pytest.mark.parametrize("direction", ["t2i", "i2t"])
def test_scan_is_its_formula_on_real_inputs(direction, pooling, attention):
    images, texts = random_sets(3, 5, 8, torch.float64), random_sets(4, 6, 8, torch.float64, 1)
    regions, words = [5, 3, 4], [6, 2, 5, 1]
    masks = [
        torch.arange(width) < torch.tensor(counts)[:, None]
        for width, counts in ((5, regions), (6, words))
    ]
    images[~masks[0]], texts[~masks[1]] = math.nan, 7.0  # padding may hold anything
    scores = scan(images, masks[0], texts, masks[1], direction, attention, 5.0, pooling)
    for i, count in enumerate(regions):
        for j, length in enumerate(words):
            pair = (texts[j, :length], images[i, :count])
            pair = pair if direction == "t2i" else pair[::-1]
            expected = naive(*pair, attention, 5.0, pooling)
            assert scores[i, j].item() == pytest.approx(expected.item(), abs=1e-6)


def test_scan_in_blocks_has_the_same_scores_and_gradients():
    images, texts = random_sets(2, 4, 8, torch.float64), random_sets(3, 5, 8, torch.float64, 1)
    images[0, 2:] = 0
    results = []
    for memory in (2**29, 1):
        local = images.clone().requires_grad_(), texts.clone().requires_grad_()
        masks = nonzero_rows(images), nonzero_rows(texts)
        scores = scan(local[0], masks[0], local[1], masks[1], max_memory=memory)
        results.append((scores, *torch.autograd.grad(scores.square().sum(), local)))
    for whole, blocks in zip(*results, strict=True):
        assert whole.isfinite().all()
        torch.testing.assert_close(blocks, whole, rtol=0, atol=1e-12)


def test_invalid_options_and_inputs_are_rejected_by_name():
    good, mask = random_sets(2, 3, 8), torch.ones(2, 3, dtype=torch.bool)
    with pytest.raises(OptionError, match="direction is 'both'"):
        scan(good, mask, good, mask, "both")
    with pytest.raises(OptionError, match="sharpness 0"):
        scan(good, mask, good, mask, sharpness=0)
    with pytest.raises(InputError, match="texts must be l2-normalised"):
        scan(good, mask, good * 2, mask)
    with pytest.raises(InputError, match="images must be l2-normalised"):
        scan(good * math.nan, mask, good, mask)
    with pytest.raises(InputError, match="the mask of texts .* has items without inputs"):
        scan(good, mask, good, mask & torch.tensor([[True], [False]]))
    with pytest.raises(ShapeError, match=r"images have shape \(3, 8\)"):
        scan(good[0], mask, good, mask)
    with pytest.raises(ShapeError, match="8 wide and texts 6"):
        scan(good, mask, random_sets(2, 3, 6), mask)


@pytest.mark.parametrize("attention", [9.0, 29.0, 31.0])
def test_a_word_opposite_to_all_regions_has_its_cosine(attention):
    images = F.normalize(torch.rand(3, 4, 8), dim=-1)
    texts = F.normalize(-torch.rand(2, 1, 8), dim=-1)
    masks = torch.ones(3, 4, dtype=torch.bool), torch.ones(2, 1, dtype=torch.bool)
    scores = scan(images, masks[0], texts, masks[1], attention=attention, pooling="mean")
    for i, image in enumerate(images):
        for j, text in enumerate(texts):
            expected = naive(text.double(), image.double(), attention, 6.0, "mean")
            assert scores[i, j].item() == pytest.approx(expected.item(), abs=1e-5)
