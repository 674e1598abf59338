"""What is minimised: each loss is a function of similarities, slots or samples, one a file."""

from diverset.losses.contrastive import contrastive
from diverset.losses.distillation import distillation
from diverset.losses.max_match import off_global, within_set
from diverset.losses.regularizers import diversity, gram_diversity, mmd
from diverset.losses.soft_contrastive import SoftContrastive, variational_bottleneck
from diverset.losses.triplet import Triplet, triplet

__all__ = [
    "SoftContrastive",
    "Triplet",
    "contrastive",
    "distillation",
    "diversity",
    "gram_diversity",
    "mmd",
    "off_global",
    "triplet",
    "variational_bottleneck",
    "within_set",
]
