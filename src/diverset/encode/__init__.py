"""`diverset encode`: embedding sets of a large collection, written as shards."""

from diverset.encode.item_source import ItemSource
from diverset.encode.open_source import image_folder, split_captions, split_images, text_table
from diverset.encode.write_shards import write_shards

__all__ = [
    "ItemSource",
    "image_folder",
    "split_captions",
    "split_images",
    "text_table",
    "write_shards",
]
