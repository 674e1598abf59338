import math

import pytest
import torch

from diverset.errors import InputError, ShapeError
from diverset.losses import SoftContrastive, variational_bottleneck
from diverset.types import Gaussian


def test_soft_contrastive_is_its_formula():
    images, texts = torch.randn(2, 3, 4).double(), torch.randn(3, 2, 4).double()
    image_index = torch.tensor([0, 1, 1])
    loss = SoftContrastive(scale=2.0, shift=1.0)
    expected = 0.0
    for i in range(2):
        for j in range(3):
            probabilities = [
                1 / (1 + math.exp(2.0 * float((x - y).norm()) - 1.0))
                for x in images[i]
                for y in texts[j]
            ]
            match = sum(probabilities) / len(probabilities)
            expected -= math.log(match if image_index[j] == i else 1 - match) / 6
    assert loss(images, texts, image_index).item() == pytest.approx(expected)
    loss(images, texts, image_index).backward()
    assert loss.scale.grad.abs() > 0 and loss.shift.grad.abs() > 0


def test_bottleneck_is_zero_for_the_unit_normal_only():
    unit = Gaussian(torch.zeros(2, 4), torch.zeros(2, 4), torch.zeros(2, 1, 4))
    assert variational_bottleneck(unit) == 0
    wide = Gaussian(torch.zeros(2, 4), torch.ones(2, 4), torch.zeros(2, 1, 4))
    assert variational_bottleneck(wide).item() == pytest.approx(4 * ((math.e**2 - 1) / 2 - 1))


@pytest.mark.parametrize(
    ("texts", "image_index", "error", "message"),
    [
        ((3, 2, 4), [0, 1, 5], InputError, "text 2 belongs to image 5, but there are 2 images"),
        ((3, 2, 4), [0, 1], ShapeError, "for 3 texts"),
        ((3, 2, 5), [0, 1, 1], ShapeError, "with the same dim"),
    ],
)
def test_invalid_inputs_are_rejected_by_name(texts, image_index, error, message):
    with pytest.raises(error, match=message):
        SoftContrastive()(torch.rand(2, 2, 4), torch.rand(texts), torch.tensor(image_index))
