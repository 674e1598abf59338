"""Caption datasets, image reading, region features, augmentation and vocabularies.

Every dataset reader returns a `CaptionDataset`.
"""

import lazy_loader

# Lazily, because the list of image suffixes is needed without importing torch.
__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
