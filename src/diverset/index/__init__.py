"""The embedded index of embedding sets, and the store protocol it shares with the engines."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
