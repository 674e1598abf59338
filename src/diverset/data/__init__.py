"""Datasets as people have them: captions and splits, pictures, region features, words.

Every reader returns a `Collection`. Nothing here knows models, batches or devices.
"""

from collections.abc import Callable

from diverset.data.augment import drop_cells, drop_inputs, drop_regions, drop_words
from diverset.data.bottom_up import BottomUpRegions
from diverset.data.coco import read_coco
from diverset.data.collection import Collection
from diverset.data.glove import WordVectors, load_vectors
from diverset.data.images import open_picture
from diverset.data.karpathy import read_karpathy
from diverset.data.precomp import MappedRegions, read_precomp
from diverset.data.preprocess import Preprocess, RandomResizedCrop
from diverset.data.regions import Regions, SelectedRegions
from diverset.data.table import read_table
from diverset.data.tokens import words
from diverset.data.vocabulary import Vocabulary

READERS: dict[str, Callable[..., Collection]] = {
    "karpathy": read_karpathy,
    "coco": read_coco,
    "precomp": read_precomp,
    "table": read_table,
}
"""The readers by the name of their format; their arguments differ."""

__all__ = [
    "READERS",
    "BottomUpRegions",
    "Collection",
    "MappedRegions",
    "Preprocess",
    "RandomResizedCrop",
    "Regions",
    "SelectedRegions",
    "Vocabulary",
    "WordVectors",
    "drop_cells",
    "drop_inputs",
    "drop_regions",
    "drop_words",
    "load_vectors",
    "open_picture",
    "read_coco",
    "read_karpathy",
    "read_precomp",
    "read_table",
    "words",
]
