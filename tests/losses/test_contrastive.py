import math

import pytest
import torch

from diverset.errors import OptionError, ShapeError
from diverset.losses import contrastive


def test_contrastive_is_its_formula_without_siblings():
    scores = torch.randn(3, 5, dtype=torch.float64)
    owners = torch.tensor([0, 2, 1, 0, 2])
    expected = 0.0
    for text, owner in enumerate(owners.tolist()):
        column = [math.exp(float(scores[image, text]) / 0.1) for image in range(3)]
        expected -= math.log(column[owner] / sum(column))
        row = [
            math.exp(float(scores[owner, other]) / 0.1)
            for other in range(5)
            if other == text or owners[other] != owner
        ]
        expected -= math.log(math.exp(float(scores[owner, text]) / 0.1) / sum(row))
    assert contrastive(scores, owners, 0.1).item() == pytest.approx(expected / 5)


def test_bad_input_is_named():
    with pytest.raises(ShapeError, match="owners for 3 captions"):
        contrastive(torch.rand(2, 3), torch.tensor([0, 1]))
    with pytest.raises(OptionError, match="temperature is 0"):
        contrastive(torch.rand(2, 2), torch.tensor([0, 1]), 0)
