"""From a configuration to a model: two encoders and a similarity; saving, loading, exporting."""

import lazy_loader

# Lazily, because `diverset.model.folder` answers without importing torch.
__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
