"""Pairs excluded from the negatives of the triplet loss and of InfoNCE, against naive loops."""

import math

import pytest
import torch

from diverset.losses import contrastive, triplet

INDEX = torch.tensor([0, 0, 1, 2, 2])


@pytest.fixture
def pairs():
    return torch.rand(3, 5) * 2 - 1, torch.rand(3, 5) < 0.4


def naive_triplet(scores, excluded, negatives):
    def hinges(match, others):
        values = [max(0.0, 0.2 + other - match) for other in others]
        return values if negatives == "mean" else [max(values, default=0.0)]

    to_texts, to_images = [], []
    for text, image in enumerate(INDEX.tolist()):
        match = float(scores[image, text])
        texts = [t for t in range(5) if INDEX[t] != image and not excluded[image, t]]
        images = [i for i in range(3) if i != image and not excluded[i, text]]
        to_texts += hinges(match, [float(scores[image, t]) for t in texts])
        to_images += hinges(match, [float(scores[i, text]) for i in images])
    return sum(sum(values) / max(len(values), 1) for values in (to_texts, to_images))


def naive_contrastive(scores, excluded):
    def cross_entropy(match, others):
        exponents = [math.exp(float(score) / 0.05) for score in [match, *others]]
        return -math.log(exponents[0] / sum(exponents))

    total = 0.0
    for text, image in enumerate(INDEX.tolist()):
        texts = [t for t in range(5) if INDEX[t] != image and not excluded[image, t]]
        images = [i for i in range(3) if i != image and not excluded[i, text]]
        match = scores[image, text]
        total += cross_entropy(match, [scores[image, t] for t in texts])
        total += cross_entropy(match, [scores[i, text] for i in images])
    return total / 5


@pytest.mark.parametrize("negatives", ["hardest", "mean"])
def test_triplet_without_excluded_pairs_equals_a_loop(pairs, negatives):
    scores, excluded = pairs
    loss = triplet(scores, INDEX, 0.2, negatives, excluded)
    assert float(loss) == pytest.approx(naive_triplet(scores, excluded, negatives), abs=1e-5)


def test_info_nce_without_excluded_pairs_equals_a_loop(pairs):
    scores, excluded = pairs
    loss = contrastive(scores, INDEX, 0.05, excluded=excluded)
    assert float(loss) == pytest.approx(naive_contrastive(scores, excluded), rel=1e-4)
    almost_hard = contrastive(scores, INDEX, 0.05, smoothing=1e-9, excluded=excluded)
    torch.testing.assert_close(almost_hard, loss)


@pytest.mark.parametrize("loss", [triplet, contrastive])
def test_excluding_all_negatives_leaves_finite_gradients(loss):
    scores = torch.rand(3, 5, requires_grad=True)
    value = loss(scores, INDEX, excluded=torch.ones(3, 5, dtype=torch.bool))
    value.backward()
    assert float(value.detach()) == pytest.approx(0, abs=1e-6) and scores.grad.isfinite().all()


@pytest.mark.parametrize("loss", [triplet, contrastive])
def test_own_pairs_cannot_be_excluded(loss):
    scores, own = torch.rand(3, 5), INDEX == torch.arange(3)[:, None]
    assert torch.equal(loss(scores, INDEX, excluded=own), loss(scores, INDEX))
