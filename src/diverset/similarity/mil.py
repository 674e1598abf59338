"""Multiple-instance-learning similarity of PVSE (Sec. 3.3)."""

from jaxtyping import Float
from torch import Tensor

from diverset.similarity.checks import check_sets
from diverset.similarity.cosines import Cosines, pairwise_cosines


def mil(
    images: Float[Tensor, "images slots dim"], texts: Float[Tensor, "texts text_slots dim"]
) -> Float[Tensor, "images texts"]:
    """The cosine of the closest pair of elements."""
    check_sets(images, texts)
    return mil_of_cosines(pairwise_cosines(images, texts))


def mil_of_cosines(cosines: Cosines) -> Float[Tensor, "images texts"]:
    """max_{x, y} c(x, y)."""
    return cosines.amax(dim=(1, 2))
