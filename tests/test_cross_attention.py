import math

import pytest
import torch
from support import random_sets
from torch.nn import functional as F

from diverset.cross_attention import scan
from diverset.errors import InputError, OptionError, ShapeError


def naive(queries, contexts, attention, sharpness, pooling):
    """One pair, with the attended vectors written out."""
    cosines = queries @ contexts.T
    raw = F.leaky_relu(cosines, 0.1)
    raw = raw / raw.norm(dim=0, keepdim=True)
    attended = (attention * raw).softmax(dim=1) @ contexts
    found = F.cosine_similarity(queries, attended, dim=1)
    if pooling == "mean":
        return found.mean()
    return (sharpness * found).exp().sum().log() / sharpness


@pytest.mark.parametrize("pooling", ["lse", "mean"])
@pytest.mark.parametrize("direction", ["t2i", "i2t"])
def test_scan_is_its_formula_and_ignores_padding(direction, pooling):
    images, texts = random_sets(3, 5, 8, torch.float64), random_sets(4, 6, 8, torch.float64, 1)
    sizes, words = [5, 3, 4], [6, 2, 5, 1]
    for one, size in zip(images, sizes, strict=True):
        one[size:] = 0
    for one, size in zip(texts, words, strict=True):
        one[size:] = 0
    found = scan(images, texts, direction, 4.0, 5.0, pooling)
    for i, size in enumerate(sizes):
        for j, length in enumerate(words):
            pair = (texts[j, :length], images[i, :size])
            pair = pair if direction == "t2i" else pair[::-1]
            expected = naive(*pair, 4.0, 5.0, pooling)
            assert found[i, j].item() == pytest.approx(expected.item(), abs=1e-6)


def test_scan_is_differentiable_with_padding():
    images = random_sets(2, 4, 8)
    images[0, 2:] = 0
    images.requires_grad_()
    scan(images, random_sets(3, 5, 8, seed=1)).sum().backward()
    assert images.grad.isfinite().all()


def test_bad_inputs_are_named():
    good = random_sets(2, 3, 8)
    with pytest.raises(OptionError, match="direction is 'both'"):
        scan(good, good, "both")
    with pytest.raises(OptionError, match="sharpness 0"):
        scan(good, good, sharpness=0)
    with pytest.raises(InputError, match="texts must hold l2-normalised rows"):
        scan(good, good * 2)
    with pytest.raises(InputError, match="images"):
        scan(good * math.nan, good)
    with pytest.raises(ShapeError, match=r"\(3, 8\)"):
        scan(good[0], good)
    with pytest.raises(ShapeError, match="8 wide and texts 6"):
        scan(good, random_sets(2, 3, 6))
