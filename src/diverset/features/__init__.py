"""From raw inputs to local features, their mask and a global feature: one extractor a file."""

from diverset.features.bigru import BiGruFeatures
from diverset.features.convolution import ConvolutionalFeatures
from diverset.features.positions import sine_positions, sine_positions_2d
from diverset.features.regions import RegionFeatures
from diverset.features.transformer import TransformerFeatures

__all__ = [
    "BiGruFeatures",
    "ConvolutionalFeatures",
    "RegionFeatures",
    "TransformerFeatures",
    "sine_positions",
    "sine_positions_2d",
]
