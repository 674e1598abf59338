"""Distillation: a student learns a teacher's similarities within a batch, as distributions.

Not part of the paper. An ensemble ranks better than its members; a student trained towards the
ensemble's softmax over a batch keeps part of the gain at the cost of one model.
"""

from jaxtyping import Float
from torch import Tensor
from torch.nn import functional as F

from diverset.errors import ShapeError, check_positive


def distillation(
    scores: Float[Tensor, "images texts"],
    teacher_scores: Float[Tensor, "images texts"],
    temperature: float = 0.05,
) -> Float[Tensor, ""]:
    """KL(teacher || student) of every image's softmax over texts and every text's over images.

    The sum of both directions, each a mean over its queries; 0 if the similarities agree up to a
    constant per query. `teacher_scores` may be a mean over several teachers.
    """
    if scores.shape != teacher_scores.shape or scores.ndim != 2:
        raise ShapeError(
            f"scores are {tuple(scores.shape)} and the teacher's {tuple(teacher_scores.shape)}; "
            "give both as (images, texts) of one batch"
        )
    check_positive("temperature", temperature)
    student, teacher = scores / temperature, teacher_scores.detach().to(scores) / temperature
    return _divergence(student, teacher) + _divergence(student.T, teacher.T)


def _divergence(student: Tensor, teacher: Tensor) -> Tensor:
    return F.kl_div(
        student.log_softmax(dim=1),
        teacher.log_softmax(dim=1),
        reduction="batchmean",
        log_target=True,
    )
