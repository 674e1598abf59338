import math

import pytest
import torch
from support import random_sets
from torch.nn import functional as F

from diverset.errors import ShapeError
from diverset.losses import diversity, gram_diversity, mmd, off_global, within_set


def test_mmd_is_its_formula():
    images, texts = random_sets(3, 2, 6, torch.float64), random_sets(4, 2, 6, torch.float64, 1)
    x, y = images.flatten(0, 1), texts.flatten(0, 1)

    def mean_kernel(a, b):
        return sum(math.exp(-0.5 * float((p - q).norm())) for p in a for q in b) / len(a) / len(b)

    expected = mean_kernel(x, x) + mean_kernel(y, y) - 2 * mean_kernel(x, y)
    assert mmd(images, texts).item() == pytest.approx(expected)


def test_mmd_in_blocks_has_the_gradient_of_its_formula(monkeypatch):
    monkeypatch.setattr("diverset.losses.regularizers.KERNEL_ROWS", 4)
    images = random_sets(3, 3, 6, torch.float64).requires_grad_()
    texts = random_sets(5, 2, 6, torch.float64, 1).requires_grad_()
    assert torch.autograd.gradcheck(lambda x, y: mmd(x, y), (images, texts))
    x, y = images.flatten(0, 1), texts.flatten(0, 1)
    kernel = (-0.5 * torch.cdist(torch.cat([x, y]), torch.cat([x, y]))).exp()
    plain = kernel[:9, :9].mean() + kernel[9:, 9:].mean() - 2 * kernel[:9, 9:].mean()
    torch.testing.assert_close(mmd(images, texts), plain)


def test_mmd_has_a_finite_gradient_for_collapsed_sets():
    images = random_sets(3, 1, 6).expand(3, 4, 6).clone().requires_grad_()
    mmd(images, images.detach().clone()).backward()
    assert images.grad.isfinite().all()


def test_diversity_is_largest_for_equal_slots():
    slots = random_sets(2, 4, 6)
    assert diversity(slots[:, :1].expand(2, 4, 6)).item() == pytest.approx(1)
    assert 0 < diversity(slots) < 1
    assert diversity(slots[:, :1]) == 0 and gram_diversity(slots[:, :1]) == 0
    scaled = slots * torch.tensor([1.0, 2.0, 3.0, 4.0])[:, None]
    torch.testing.assert_close(diversity(scaled), diversity(slots))


def test_diversity_is_the_papers_sum_up_to_a_constant_and_a_factor():
    """On unit slots: the sum over all ordered pairs is K + K (K - 1) times our mean."""
    slots = random_sets(1, 4, 6, torch.float64)
    papers = sum(math.exp(-2 * float((x - y).square().sum())) for x in slots[0] for y in slots[0])
    assert 4 + 12 * diversity(slots).item() == pytest.approx(papers)


def test_diversity_of_unnormalised_slots_would_have_no_gradient():
    """Why slots are normalised first: layer-normalised rows of width 1024 are far apart."""
    slots = torch.nn.functional.layer_norm(torch.randn(4, 1024), (1024,))
    assert (torch.cdist(slots, slots)[0, 1:].square() * -2).exp().max() == 0


def test_regularizers_are_computed_in_float32_under_autocast():
    images = random_sets(6, 4, 32)
    texts = torch.nn.functional.normalize(images + 1e-3 * torch.randn(6, 4, 32), dim=-1)
    exact = mmd(images.double(), texts.double()).item()
    with torch.autocast("cpu", torch.bfloat16):
        assert mmd(images, texts).item() == pytest.approx(exact, rel=0.05)
        assert diversity(images.bfloat16()).dtype == torch.float32
        assert gram_diversity(images.bfloat16()).dtype == torch.float32


def test_sets_of_another_shape_are_rejected():
    with pytest.raises(ShapeError, match=r"slots has shape \(4, 6\)"):
        diversity(torch.rand(4, 6))
    with pytest.raises(ShapeError, match="8 wide and texts 6"):
        mmd(random_sets(2, 2, 8), random_sets(2, 2, 6))


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
def test_losses_of_max_match_are_their_formulas(dtype):
    elements, pooled = torch.randn(3, 4, 5, dtype=dtype), torch.randn(3, 5, dtype=dtype)
    pushed, pairs = [], []
    for row, centre in zip(elements, pooled, strict=True):
        for i, element in enumerate(row):
            pushed.append(max(0.0, float(F.cosine_similarity(element, centre, dim=0)) - 0.1))
            pairs += [
                max(0.0, float(F.cosine_similarity(element, other, dim=0)) - 0.2)
                for other in row[i + 1 :]
            ]
    assert float(off_global(elements, pooled, 0.1)) == pytest.approx(
        sum(pushed) / len(pushed), abs=1e-6
    )
    assert float(within_set(elements, 0.2)) == pytest.approx(sum(pairs) / len(pairs), abs=1e-6)


def test_single_elements_have_no_pairs():
    alone = torch.randn(2, 1, 3, requires_grad=True)
    within_set(alone).backward()
    assert float(within_set(alone.detach())) == 0 and (alone.grad == 0).all()


def test_elements_and_global_features_of_other_shapes_are_rejected():
    with pytest.raises(ShapeError, match=r"global features \(3, 3\)"):
        off_global(torch.randn(2, 1, 3), torch.randn(3, 3))
    with pytest.raises(ShapeError, match=r"elements has shape \(2, 3\)"):
        within_set(torch.randn(2, 3))
