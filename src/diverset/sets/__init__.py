"""From features to embedding sets: one set module a file, all with the same signature.

A set module takes `Features` and returns `EmbeddingSets`; `with_attention=True` keeps its maps.
"""

from diverset.sets.gaussian import GaussianSets
from diverset.sets.local import LocalSets
from diverset.sets.pie_net import PieNet
from diverset.sets.pooled import PooledSet
from diverset.sets.slots import SlotSets
from diverset.sets.transformer import TransformerSets

__all__ = [
    "GaussianSets",
    "LocalSets",
    "PieNet",
    "PooledSet",
    "SlotSets",
    "TransformerSets",
]
