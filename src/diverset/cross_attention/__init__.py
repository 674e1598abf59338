"""Baselines that see image and text together: they score pairs, not embeddings.

Each takes local features of both sides with masks and returns a score for every pair.
"""

from diverset.cross_attention.blocks import nonzero_rows
from diverset.cross_attention.caan import Caan
from diverset.cross_attention.imram import Imram
from diverset.cross_attention.naaf import Naaf
from diverset.cross_attention.scan import scan
from diverset.cross_attention.sgraf import Sgraf

__all__ = ["Caan", "Imram", "Naaf", "Sgraf", "nonzero_rows", "scan"]
