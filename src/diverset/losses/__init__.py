"""The losses (Sec. 3.4), one per file. Each returns a scalar tensor."""

from diverset.losses.captioning import Captioner, caption_labels, captioning
from diverset.losses.contrastive import contrastive
from diverset.losses.distillation import distillation
from diverset.losses.regularizers import diversity, gram_diversity, mmd, off_global, within_set
from diverset.losses.soft_contrastive import SoftContrastive, variational_bottleneck
from diverset.losses.triplet import triplet

__all__ = [
    "Captioner",
    "caption_labels",
    "captioning",
    "SoftContrastive",
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
