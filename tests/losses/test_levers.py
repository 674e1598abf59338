"""Losses beyond the paper, each against a naive loop."""

import math

import pytest
import torch
from torch.nn import functional as F

from diverset.errors import ShapeError
from diverset.losses import contrastive, distillation, off_global, within_set

OWNERS = torch.tensor([0, 0, 1, 2, 2, 2])


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
def test_off_global_and_within_set(dtype):
    elements, pooled = torch.randn(3, 4, 5, dtype=dtype), torch.randn(3, 5, dtype=dtype)
    pushed, pairs = [], []
    for one, centre in zip(elements, pooled, strict=True):
        for i, element in enumerate(one):
            pushed.append(max(0.0, float(F.cosine_similarity(element, centre, dim=0)) - 0.1))
            pairs += [
                max(0.0, float(F.cosine_similarity(element, other, dim=0)) - 0.2)
                for other in one[i + 1 :]
            ]
    found = off_global(elements, pooled, margin=0.1)
    assert float(found) == pytest.approx(sum(pushed) / len(pushed), abs=1e-6)
    assert float(within_set(elements, 0.2)) == pytest.approx(sum(pairs) / len(pairs), abs=1e-6)


def test_single_elements_have_no_pairs_and_shapes_are_named():
    alone = torch.randn(2, 1, 3, requires_grad=True)
    within_set(alone).backward()
    assert float(within_set(alone.detach())) == 0 and (alone.grad == 0).all()
    with pytest.raises(ShapeError, match=r"global features \(3, 3\)"):
        off_global(alone, torch.randn(3, 3))
    with pytest.raises(ShapeError, match="give"):
        within_set(torch.randn(2, 3))


def naive(scores, temperature, smoothing, soft, alike, soft_temperature):
    """Every caption as a query for images, and in place of its image as a query for captions."""
    total = 0.0
    for caption, owner in enumerate(OWNERS.tolist()):
        images = list(range(len(scores)))
        means = [
            sum(float(alike[caption, c]) for c in range(6) if OWNERS[c] == image)
            / int((OWNERS == image).sum())
            for image in images
        ]
        logits = [float(scores[image, caption]) / temperature for image in images]
        total += cross_entropy(logits, owner, means, smoothing, soft, soft_temperature)
        kept = [c for c in range(6) if c == caption or OWNERS[c] != owner]
        logits = [float(scores[owner, c]) / temperature for c in kept]
        near = [float(alike[caption, c]) for c in kept]
        place = kept.index(caption)
        total += cross_entropy(logits, place, near, smoothing, soft, soft_temperature)
    return total / 6


def cross_entropy(logits, match, near, smoothing, soft, temperature):
    normal = math.log(sum(math.exp(one) for one in logits))
    weights = [math.exp(one / temperature) for one in near]
    return -sum(
        (
            (1 - smoothing - soft) * (place == match)
            + smoothing / len(logits)
            + soft * weights[place] / sum(weights)
        )
        * (logit - normal)
        for place, logit in enumerate(logits)
    )


@pytest.mark.parametrize(("smoothing", "soft"), [(0.1, 0.0), (0.0, 0.3), (0.1, 0.3)])
def test_softened_targets(smoothing, soft):
    scores = torch.randn(3, 6, dtype=torch.float64, requires_grad=True)
    vectors = F.normalize(torch.randn(6, 4, dtype=torch.float64), dim=-1)
    alike = vectors @ vectors.T
    found = contrastive(scores, OWNERS, 0.5, smoothing, alike, soft, 0.2)
    assert float(found.detach()) == pytest.approx(
        naive(scores.detach(), 0.5, smoothing, soft, alike, 0.2)
    )
    found.backward()
    assert scores.grad.isfinite().all()


def test_a_tiny_softness_is_the_plain_loss():
    scores, alike = torch.randn(3, 6), torch.eye(6)
    plain = contrastive(scores, OWNERS, 0.1)
    torch.testing.assert_close(contrastive(scores, OWNERS, 0.1, 1e-9, alike, 1e-9), plain)
    with pytest.raises(ShapeError, match="alike is None for 6 captions"):
        contrastive(scores, OWNERS, soft=0.1)


def test_distillation_is_the_divergence_both_ways():
    scores, taught = torch.randn(3, 5, dtype=torch.float64), torch.randn(3, 5, dtype=torch.float64)
    total = 0.0
    for student, teacher in ((scores, taught), (scores.T, taught.T)):
        p, q = (teacher / 0.3).softmax(dim=1), (student / 0.3).softmax(dim=1)
        for row in range(len(p)):
            total += sum(
                float(a) * math.log(float(a) / float(b))
                for a, b in zip(p[row], q[row], strict=True)
            ) / len(p)
    assert float(distillation(scores, taught, 0.3)) == pytest.approx(total)
    assert float(distillation(taught, taught)) == pytest.approx(0, abs=1e-9)
    with pytest.raises(ShapeError, match="the teacher's"):
        distillation(scores, taught.T)
