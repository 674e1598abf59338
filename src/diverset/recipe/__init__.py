"""Recipes, the data of their splits, and the folders of their runs."""

import lazy_loader

# Lazily, because a recipe can be read without importing torch.
__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
