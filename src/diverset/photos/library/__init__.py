"""The library: images and texts of the user's folders, indexed and kept up to date.

Nothing is ever written into the indexed folders.
"""

from diverset.photos.library.indexing import index_folders
from diverset.photos.library.library import Library
from diverset.photos.library.result import IndexingResult

__all__ = ["IndexingResult", "Library", "index_folders"]
