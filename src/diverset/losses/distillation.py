"""What a model learns from others: their similarities within a batch, as distributions.

Not part of the paper. An ensemble ranks better than any member; a student that is trained towards
the ensemble's softmax over a batch gets part of the way at the cost of one model.
"""

from jaxtyping import Float
from torch import Tensor
from torch.nn import functional as F

from diverset.errors import OptionError, ShapeError


def distillation(
    scores: Float[Tensor, "images texts"],
    taught: Float[Tensor, "images texts"],
    temperature: float = 0.05,
) -> Float[Tensor, ""]:
    """KL(teacher || student) of every image's softmax over texts and every text's over images.

    The sum of both directions, each a mean over its queries; 0 where the similarities agree up to
    a constant for every query.

    Args:
        scores: similarities of the student.
        taught: those of the teacher, or the mean of several.
        temperature: both are divided by it.
    """
    if scores.shape != taught.shape or scores.ndim != 2:
        raise ShapeError(
            f"scores are {tuple(scores.shape)} and the teacher's {tuple(taught.shape)}; give both "
            "as (images, texts) of one batch"
        )
    if not temperature > 0:
        raise OptionError(f"temperature is {temperature}; give a number above 0 (usual: 0.05)")
    found, wanted = scores / temperature, taught.detach().to(scores) / temperature
    return _divergence(found, wanted) + _divergence(found.T, wanted.T)


def _divergence(found: Tensor, wanted: Tensor) -> Tensor:
    return F.kl_div(
        found.log_softmax(dim=1), wanted.log_softmax(dim=1), reduction="batchmean", log_target=True
    )
