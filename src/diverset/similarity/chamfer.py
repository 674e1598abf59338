"""Chamfer similarity: smooth-Chamfer with the maximum in place of log-sum-exp (Sec. 3.3)."""

from diverset.similarity.checks import check_sets
from diverset.similarity.cosines import Cosines, ImageSets, Scores, TextSets, pairwise_cosines


def chamfer(images: ImageSets, texts: TextSets) -> Scores:
    """Every element counts with its nearest neighbour in the other set."""
    check_sets(images, texts)
    return chamfer_of_cosines(pairwise_cosines(images, texts))


def chamfer_of_cosines(cosines: Cosines) -> Scores:
    """1 / (2 |S1|) sum_x max_y c(x, y) + 1 / (2 |S2|) sum_y max_x c(x, y)."""
    return (cosines.amax(dim=2).mean(dim=1) + cosines.amax(dim=1).mean(dim=1)) / 2
