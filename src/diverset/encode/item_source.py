"""Collections that are encoded range by range: images, region features or texts.

Frozen backbones run on the fly, since features of large collections do not fit into a cache. Ids
and metadata are checked first, so that no time is spent on sets that an index rejects.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from PIL.Image import Image
from torch import Tensor

from diverset.data.regions import Regions
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
        name: for messages, and to recognise a folder of shards.
        ids, metadata: of all items.
        elements: per set.
        encode_sets: from a range of items to the sets of the readable ones, and the files of the
            unreadable ones by item.
        content_hash: of ids, texts and metadata, to recognise a folder of shards.
        columns: of a table that are stored as metadata.
    """

    name: str
    ids: Sequence[str]
    metadata: Sequence[Metadata]
    elements: int
    encode_sets: Callable[[range], tuple[Tensor, dict[int, str]]]
    content_hash: str
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

    def encode(self, items: range) -> tuple[Records, list[str]]:
        """A range of items, and the files that could not be read."""
        sets, unreadable = self.encode_sets(items)
        readable = [item for item in items if item not in unreadable]
        records = Records(
            [self.ids[item] for item in readable],
            sets.float().cpu().numpy(),
            [self.metadata[item] for item in readable],
        )
        return records, list(unreadable.values())


def text_source(
    model: Model,
    name: str,
    ids: Sequence[str],
    texts: Sequence[str],
    metadata: Sequence[Metadata],
    precision: str,
    columns: Sequence[str] = (),
) -> ItemSource:
    """Texts, each with its metadata."""

    def encode_sets(items: range) -> tuple[Tensor, dict[int, str]]:
        return model.encode_texts([texts[item] for item in items], precision=precision), {}

    elements, key = model.config.text_set.size, content_hash(ids, texts, metadata)
    return ItemSource(name, ids, metadata, elements, encode_sets, key, tuple(columns))


def region_source(
    model: Model, name: str, ids: Sequence[str], regions: Regions, precision: str
) -> ItemSource:
    """Images by their region features."""

    def encode_sets(items: range) -> tuple[Tensor, dict[int, str]]:
        batch = [np.array(regions[item]) for item in items]
        return model.encode_images(batch, precision=precision), {}

    elements, key = model.config.image_set.size, content_hash(ids)
    return ItemSource(name, ids, [{}] * len(ids), elements, encode_sets, key)


def image_source(
    model: Model, name: str, ids: Sequence[str], files: Sequence[Path], precision: str
) -> ItemSource:
    """Image files; unreadable ones are left out."""
    elements, dim = model.config.image_set.size, model.config.dim

    def encode_sets(items: range) -> tuple[Tensor, dict[int, str]]:
        preprocess = model.image_backbone().preprocess
        images: list[Image] = []
        unreadable: dict[int, str] = {}
        for item in items:
            try:
                images.append(preprocess.open(files[item]))
            except DataError:
                unreadable[item] = str(files[item])
        if not images:
            return torch.zeros(0, elements, dim), unreadable
        return model.encode_images(images, precision=precision), unreadable

    metadata = [{"image": str(file)} for file in files]
    # Without the paths: processes may see the same folder under different paths.
    return ItemSource(name, ids, metadata, elements, encode_sets, content_hash(ids))
