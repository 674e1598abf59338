"""Multiple-instance-learning similarity of PVSE (Sec. 3.3)."""

from diverset.similarity.checks import check_sets
from diverset.similarity.cosines import Cosines, ImageSets, Scores, TextSets, pairwise_cosines


def mil(images: ImageSets, texts: TextSets) -> Scores:
    """The cosine of the closest pair of elements."""
    check_sets(images, texts)
    return mil_of_cosines(pairwise_cosines(images, texts))


def mil_of_cosines(cosines: Cosines) -> Scores:
    """max_{x, y} c(x, y)."""
    return cosines.amax(dim=(1, 2))
