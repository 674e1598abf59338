"""Set prediction modules (Sec. 3.2) and those of the baselines, one per file.

A set module takes `Features` and returns `EmbeddingSets`; `with_attention=True` adds its attention
maps.
"""

from diverset.sets.gaussian import GaussianSets
from diverset.sets.local import LocalSets
from diverset.sets.pie_net import PieNet
from diverset.sets.pooled import PooledSet
from diverset.sets.precomputed import PrecomputedSets
from diverset.sets.slots import SlotSets
from diverset.sets.transformer import TransformerSets

__all__ = [
    "GaussianSets",
    "LocalSets",
    "PieNet",
    "PooledSet",
    "PrecomputedSets",
    "SlotSets",
    "TransformerSets",
]
