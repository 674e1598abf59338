"""Collections that are encoded range by range: images, region features or texts.

Frozen backbones run on the fly, since features of large collections do not fit into a cache. Ids
and metadata are checked first, so that no time is spent on sets that an index rejects.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from PIL.Image import Image

from diverset.errors import DataError, InputError
from diverset.index.checks import check_ids
from diverset.index.filter_language import check_metadata
from diverset.index.set_store import Metadata, Records
from diverset.index.shards import content_hash
from diverset.model import Model


@dataclass(frozen=True)
class ItemSource:
    """A collection to encode.

    Attributes:
        model: encodes the items.
        side: "image" or "text", what the items are.
        name: for messages, and to recognise a folder of shards.
        ids, metadata: of all items.
        read: what the model encodes, by item; None for an image file that cannot be read.
        content_hash: of ids, texts and metadata, to recognise a folder of shards.
        precision: "bfloat16" is faster on CPUs that support it.
        columns: of a table that are stored as metadata.
    """

    model: Model
    side: str
    name: str
    ids: Sequence[str]
    metadata: Sequence[Metadata]
    read: Callable[[int], Any]
    content_hash: str
    precision: str = "float32"
    columns: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        try:
            check_ids(self.ids)
        except InputError as error:
            raise DataError(f"{self.name}: {error}") from error
        for item, fields in zip(self.ids, self.metadata, strict=True):
            try:
                check_metadata(fields)
            except InputError as error:
                raise DataError(f"{self.name}, item {item!r}: {error}") from error

    @property
    def elements(self) -> int:
        """Number of elements of a set."""
        config = self.model.config
        return (config.image_set if self.side == "image" else config.text_set).size

    def encode(self, items: range) -> tuple[Records, list[str]]:
        """A range of items, and the files that could not be read."""
        contents = {item: self.read(item) for item in items}
        unreadable = [str(self.metadata[item]["image"]) for item in items if contents[item] is None]
        readable = [item for item in items if contents[item] is not None]
        encode = self.model.encode_images if self.side == "image" else self.model.encode_texts
        sets = torch.zeros(0, self.elements, self.model.config.dim)
        if readable:
            sets = encode([contents[item] for item in readable], precision=self.precision)
        records = Records(
            [self.ids[item] for item in readable],
            sets.float().cpu().numpy(),
            [self.metadata[item] for item in readable],
        )
        return records, unreadable


def image_source(
    model: Model, name: str, ids: Sequence[str], files: Sequence[Path], precision: str
) -> ItemSource:
    """Image files; unreadable ones are left out."""

    def read(item: int) -> Image | None:
        try:
            return model.image_backbone().preprocess.open(files[item])
        except DataError:
            return None

    metadata = [{"image": str(file)} for file in files]
    # Without the paths: processes may see the same folder under different paths.
    return ItemSource(model, "image", name, ids, metadata, read, content_hash(ids), precision)
