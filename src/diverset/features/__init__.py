"""Feature extractors (Sec. 3.1): local features psi(x), global feature phi(x); one per file."""

from diverset.features.bigru import BiGruFeatures
from diverset.features.convolution import ConvolutionalFeatures
from diverset.features.graph_regions import GraphRegionFeatures
from diverset.features.positions import sine_positions, sine_positions_2d
from diverset.features.regions import RegionFeatures
from diverset.features.transformer import TransformerFeatures

__all__ = [
    "BiGruFeatures",
    "ConvolutionalFeatures",
    "GraphRegionFeatures",
    "RegionFeatures",
    "TransformerFeatures",
    "sine_positions",
    "sine_positions_2d",
]
