import math

import pytest
import torch
from torch.nn import functional as F

from diverset.errors import OptionError, ShapeError
from diverset.losses import contrastive

IMAGE_INDEX = torch.tensor([0, 0, 1, 2, 2, 2])


def test_an_images_other_captions_are_not_negatives():
    scores = torch.randn(3, 5, dtype=torch.float64)
    image_index = torch.tensor([0, 2, 1, 0, 2])
    expected = 0.0
    for text, own in enumerate(image_index.tolist()):
        column = [math.exp(float(scores[image, text]) / 0.1) for image in range(3)]
        expected -= math.log(column[own] / sum(column))
        row = [
            math.exp(float(scores[own, other]) / 0.1)
            for other in range(5)
            if other == text or image_index[other] != own
        ]
        expected -= math.log(math.exp(float(scores[own, text]) / 0.1) / sum(row))
    assert contrastive(scores, image_index, 0.1).item() == pytest.approx(expected / 5)


def naive_contrastive(scores, temperature, smoothing, soft, caption_similarity, soft_temperature):
    """Every caption as a query for images, and in place of its image as a query for captions."""
    total = 0.0
    for caption, own in enumerate(IMAGE_INDEX.tolist()):
        images = list(range(len(scores)))
        means = [
            sum(float(caption_similarity[caption, c]) for c in range(6) if IMAGE_INDEX[c] == image)
            / int((IMAGE_INDEX == image).sum())
            for image in images
        ]
        logits = [float(scores[image, caption]) / temperature for image in images]
        total += cross_entropy(logits, own, means, smoothing, soft, soft_temperature)
        candidates = [c for c in range(6) if c == caption or IMAGE_INDEX[c] != own]
        logits = [float(scores[own, c]) / temperature for c in candidates]
        near = [float(caption_similarity[caption, c]) for c in candidates]
        match = candidates.index(caption)
        total += cross_entropy(logits, match, near, smoothing, soft, soft_temperature)
    return total / 6


def cross_entropy(logits, match, near, smoothing, soft, temperature):
    normal = math.log(sum(math.exp(logit) for logit in logits))
    weights = [math.exp(cosine / temperature) for cosine in near]
    return -sum(
        (
            (1 - smoothing - soft) * (index == match)
            + smoothing / len(logits)
            + soft * weights[index] / sum(weights)
        )
        * (logit - normal)
        for index, logit in enumerate(logits)
    )


@pytest.mark.parametrize(("smoothing", "soft"), [(0.1, 0.0), (0.0, 0.3), (0.1, 0.3)])
def test_soft_targets_are_their_formula(smoothing, soft):
    scores = torch.randn(3, 6, dtype=torch.float64, requires_grad=True)
    vectors = F.normalize(torch.randn(6, 4, dtype=torch.float64), dim=-1)
    caption_similarity = vectors @ vectors.T
    loss = contrastive(scores, IMAGE_INDEX, 0.5, smoothing, caption_similarity, soft, 0.2)
    assert float(loss.detach()) == pytest.approx(
        naive_contrastive(scores.detach(), 0.5, smoothing, soft, caption_similarity, 0.2)
    )
    loss.backward()
    assert scores.grad.isfinite().all()


def test_almost_hard_targets_give_the_plain_loss():
    scores, caption_similarity = torch.randn(3, 6), torch.eye(6)
    plain = contrastive(scores, IMAGE_INDEX, 0.1)
    torch.testing.assert_close(
        contrastive(scores, IMAGE_INDEX, 0.1, 1e-9, caption_similarity, 1e-9), plain
    )
    with pytest.raises(ShapeError, match="caption_similarity is None for 6 captions"):
        contrastive(scores, IMAGE_INDEX, soft=0.1)


def test_invalid_inputs_are_rejected_by_name():
    with pytest.raises(ShapeError, match="for 3 texts"):
        contrastive(torch.rand(2, 3), torch.tensor([0, 1]))
    with pytest.raises(OptionError, match="temperature is 0"):
        contrastive(torch.rand(2, 2), torch.tensor([0, 1]), 0)
