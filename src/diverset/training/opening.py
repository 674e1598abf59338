"""From a recipe to the data of a split: captions, and where images and texts come from.

A frozen network's features are extracted once into the cache folder, with progress, and so is what
frozen blocks below trained ones give; a network that is trained otherwise gets pictures and tokens
themselves.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray

from diverset.backbones import CachedMaps, JoinedMaps, cache_pictures, cache_texts
from diverset.building import (
    frozen_pictures,
    frozen_texts,
    load_pictures,
    load_texts,
    trained_backbones,
)
from diverset.config import ModelConfig, TextConfig
from diverset.data import (
    BottomUpRegions,
    Collection,
    Vocabulary,
    read_coco,
    read_karpathy,
    read_precomp,
    read_table,
)
from diverset.data.preprocess import RandomResizedCrop
from diverset.errors import DataError, a_few
from diverset.model import Model
from diverset.training.settings import DataConfig
from diverset.training.sources import (
    MapSource,
    PictureSource,
    RegionSource,
    Source,
    StateSource,
    TokenSource,
    WordSource,
)

Progress = Callable[[str, int, int], None]
"""Called with what is going on, the items done and all there are."""
log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Opened:
    """One split, ready to be encoded or trained on."""

    collection: Collection
    images: Source
    texts: Source

    @cached_property
    def by_image(self) -> list[NDArray[np.int64]]:
        """For every image the indices of its captions."""
        order = np.argsort(self.collection.owners, kind="stable")
        counts = np.bincount(self.collection.owners, minlength=len(self.collection))
        return np.split(order, np.cumsum(counts)[:-1])


def read_split(data: DataConfig, split: str) -> Collection:
    """The captions of a split, with its pictures or regions."""
    root = Path(data.root)
    first = data.file.split(",")[0]
    if data.root == "." and first and not (root / first).exists():
        raise DataError(f"{first} is not in this folder; give --data.root, the folder it is in")
    pictures = root / data.images if data.images else None
    match data.format:
        case "karpathy":
            found = read_karpathy(root / data.file, pictures, split)
        case "coco":
            found = read_coco(
                [root / one for one in data.file.split(",")],
                [root / one for one in split.split("+")],
                pictures,
            )
        case "precomp":
            found = read_precomp(root, split)
        case _:
            found = read_table(root / data.file, pictures, split_column="split", split=split)
    if data.regions:
        files = [root / one for one in data.regions.split(",")]
        found = found.with_regions(BottomUpRegions(files, found.image_ids))
    return found.subset(range(min(data.limit, len(found)))) if data.limit else found


def open_split(
    data: DataConfig,
    split: str,
    architecture: ModelConfig,
    vocabulary: Vocabulary | None,
    cache: Path,
    *,
    views: int = 1,
    progress: Progress | None = None,
    model: Model | None = None,
) -> Opened:
    """A split with sources that fit the architecture.

    Args:
        data: the recipe's data.
        split: name of the split.
        architecture: decides what the inputs are.
        vocabulary: for a bi-GRU.
        cache: folder for features of frozen networks.
        views: cached views of each picture.
        progress: called while features are extracted.
        model: whose trained networks know how to preprocess and tokenize; where none is given,
            they are loaded.
    """
    collection = read_split(data, split)
    if architecture.image.kind == "convolution" and architecture.image.is_cached:
        collection, images = _cached_maps(
            data, split, collection, architecture, cache, views, progress
        )
    else:
        images = _live_images(data, collection, architecture, model)
    texts = _texts(data, split, collection, architecture, vocabulary, cache, progress, model)
    return Opened(collection, images, texts)


def _cached_maps(
    data: DataConfig,
    split: str,
    collection: Collection,
    architecture: ModelConfig,
    cache: Path,
    views: int,
    progress: Progress | None,
) -> tuple[Collection, Source]:
    network = frozen_pictures(architecture.image)
    # Splits are cached apart, so that "train+val" finds what "train" and "val" have.
    names = [split] if data.limit else split.split("+")
    parts = [collection] if len(names) == 1 else [read_split(data, name) for name in names]
    crop = RandomResizedCrop(scale=(data.crop_scale, 1.0)) if views > 1 else None
    caches = [
        cache_pictures(
            network,
            _pictures(part),
            cache,
            views=views,
            augmentation=crop,
            progress=named(progress, f"features of {name} pictures"),
        )
        for name, part in zip(names, parts, strict=True)
    ]
    maps = caches[0] if len(caches) == 1 else JoinedMaps(caches)
    if maps.unreadable:
        log.warning(
            "%d pictures of %s cannot be read and are left out: %s",
            len(maps.unreadable),
            split,
            a_few(sorted(maps.unreadable)),
        )
    grid = _last_grid(architecture, maps) if architecture.image.cache_below else None
    order = {path: n for n, path in enumerate(path for part in parts for path in _pictures(part))}
    places = np.array([order[path] for path in _pictures(collection)])
    kept = np.flatnonzero(maps.valid[places])
    chosen = collection if len(kept) == len(collection) else collection.subset(kept.tolist())
    return chosen, MapSource(maps, places[kept], data.drop_inputs, grid)


def _last_grid(architecture: ModelConfig, maps: CachedMaps | JoinedMaps) -> tuple[int, int]:
    """Rows and columns of the last map, where cached ones are run through upper blocks first."""
    upper = trained_backbones(replace(architecture, text=TextConfig())).pictures
    assert upper is not None
    with torch.no_grad():
        rows, columns = upper.eval()(torch.zeros(1, *maps.shape)).shape[2:]
    return rows, columns


def _live_images(
    data: DataConfig, collection: Collection, architecture: ModelConfig, model: Model | None
) -> Source:
    if architecture.image.kind == "regions":
        if collection.regions is None:
            raise DataError(
                f"{collection.name} has no region features, which image.kind regions reads; give "
                "data.regions, or a precomp folder"
            )
        if collection.regions.width != architecture.image.input_width:
            raise DataError(
                f"regions of {collection.name} are {collection.regions.width} wide, the model "
                f"reads {architecture.image.input_width}; set model.image.input_width"
            )
        return RegionSource(collection.regions, data.drop_inputs)
    network = model.picture_network() if model else load_pictures(architecture.image)
    return PictureSource.of(_pictures(collection), network, data.crop_scale)


def _texts(
    data: DataConfig,
    split: str,
    collection: Collection,
    architecture: ModelConfig,
    vocabulary: Vocabulary | None,
    cache: Path,
    progress: Progress | None,
    model: Model | None,
) -> Source:
    captions = collection.captions
    if architecture.text.kind == "bigru":
        if vocabulary is None:
            raise DataError("a bi-GRU needs the vocabulary it was trained with; none was found")
        return WordSource.of(captions, vocabulary, data.drop_words)
    if not architecture.text.is_cached:
        network = model.text_network() if model else load_texts(architecture.text)
        return TokenSource.of(captions, network, data.drop_words)
    # Searches encode words in float32, so what is evaluated is in float32 too, or the last digits
    # of a recall would differ. What is trained on may be rounded; it is by far the larger part.
    exact = split != data.train
    tokens = cache_texts(
        frozen_texts(architecture.text),
        captions,
        cache,
        precision="float32" if exact else "bfloat16",
        storage="float32" if exact else "float16",
        progress=named(progress, f"states of {split} captions"),
    )
    return StateSource(tokens, data.drop_words)


def _pictures(collection: Collection) -> tuple[Path, ...]:
    if collection.pictures is None:
        raise DataError(
            f"{collection.name} comes without pictures, which image.kind convolution reads; "
            "give data.images, the folder they are in"
        )
    return collection.pictures


def named(progress: Progress | None, what: str) -> Callable[[int, int], None] | None:
    """Progress of one thing, for functions that do not know what they work on."""
    return None if progress is None else lambda done, total: progress(what, done, total)
