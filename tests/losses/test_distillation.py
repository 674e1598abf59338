import math

import pytest
import torch

from diverset.errors import ShapeError
from diverset.losses import distillation


def test_distillation_is_the_kl_divergence_in_both_directions():
    scores, teacher_scores = torch.randn(2, 3, 5, dtype=torch.float64)
    total = 0.0
    for student, teacher in ((scores, teacher_scores), (scores.T, teacher_scores.T)):
        p, q = (teacher / 0.3).softmax(dim=1), (student / 0.3).softmax(dim=1)
        for row in range(len(p)):
            total += sum(
                float(a) * math.log(float(a) / float(b))
                for a, b in zip(p[row], q[row], strict=True)
            ) / len(p)
    assert float(distillation(scores, teacher_scores, 0.3)) == pytest.approx(total)
    assert float(distillation(teacher_scores, teacher_scores)) == pytest.approx(0, abs=1e-9)
    with pytest.raises(ShapeError, match="the teacher's"):
        distillation(scores, teacher_scores.T)
