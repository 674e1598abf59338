"""What is minimised: each loss is a function of similarities, slots or samples, one a file."""

from diverset.losses.contrastive import contrastive
from diverset.losses.regularizers import diversity, gram_diversity, mmd
from diverset.losses.soft_contrastive import SoftContrastive, variational_bottleneck
from diverset.losses.triplet import Triplet, triplet

__all__ = [
    "SoftContrastive",
    "Triplet",
    "contrastive",
    "diversity",
    "gram_diversity",
    "mmd",
    "triplet",
    "variational_bottleneck",
]
