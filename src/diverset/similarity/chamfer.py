"""Chamfer similarity: smooth-Chamfer with the maximum in place of log-sum-exp (Sec. 3.3)."""

from jaxtyping import Float
from torch import Tensor

from diverset.similarity.checks import check_sets
from diverset.similarity.cosines import Cosines, pairwise_cosines


def chamfer(
    images: Float[Tensor, "images slots dim"], texts: Float[Tensor, "texts text_slots dim"]
) -> Float[Tensor, "images texts"]:
    """Every element counts with its nearest neighbour in the other set."""
    check_sets(images, texts)
    return chamfer_of_cosines(pairwise_cosines(images, texts))


def chamfer_of_cosines(cosines: Cosines) -> Float[Tensor, "images texts"]:
    """1 / (2 |S1|) sum_x max_y c(x, y) + 1 / (2 |S2|) sum_y max_x c(x, y)."""
    return (cosines.amax(dim=2).mean(dim=1) + cosines.amax(dim=1).mean(dim=1)) / 2
