"""Training: from a recipe to a run folder with its best model."""

import lazy_loader

# Lazily, because exporting and parsing a recipe work without Lightning Fabric.
__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
