"""A split of a recipe's data, ready to be encoded or trained on.

Features of frozen backbones, or of frozen blocks before trainable ones, are extracted once into the
feature cache. Backbones that are trained from their input get pixels and tokens.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from itertools import chain
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray

from diverset.backbones import CachedMaps, cache_images, cache_texts, tokenize_in_chunks
from diverset.data import CaptionDataset
from diverset.data.preprocess import RandomResizedCrop
from diverset.errors import DataError, a_few
from diverset.model import Model
from diverset.model.encoder import evaluation_mode
from diverset.recipe.config import DataConfig, SourceConfig
from diverset.recipe.datasets import DatasetReader, join_datasets
from diverset.recipe.loaders import (
    ImageLoader,
    InputLoader,
    JoinedLoader,
    MapLoader,
    RegionLoader,
    StateLoader,
    TokenLoader,
    WordLoader,
)
from diverset.recipe.noun_phrases import ShortTexts, short_texts
from diverset.runtime.progress import ProgressCallback, TaskCallback

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class SplitData:
    """A split with the inputs of its images and captions.

    Attributes:
        texts: inputs of the captions, followed by those of the short texts.
        weights: how often each image is drawn per epoch of training; None for once.
        short_texts: further texts of the images, for training.
    """

    dataset: CaptionDataset
    images: InputLoader
    texts: InputLoader
    weights: NDArray[np.float64] | None = None
    short_texts: ShortTexts | None = None

    @property
    def all_texts(self) -> tuple[str, ...]:
        """Captions and short texts."""
        return self.dataset.captions + (self.short_texts.texts if self.short_texts else ())

    @cached_property
    def by_image(self) -> list[NDArray[np.int64]]:
        """For every image the rows of its captions."""
        return [self.dataset.caption_indices(image) for image in range(len(self.dataset))]


def open_split(
    data: DataConfig,
    split: str,
    model: Model,
    cache: Path,
    *,
    training: bool = False,
    progress: ProgressCallback | None = None,
    reader: DatasetReader | None = None,
) -> SplitData:
    """Open a split with the inputs that a model reads.

    Inputs are dropped and cropped only in training batches, which pass a random generator.

    Args:
        data: names the files.
        split: see `DataConfig.resolve`.
        model: its backbones extract, preprocess and tokenize.
        cache: folder of the feature cache.
        training: cache augmented views of the images, and add short texts, as `data` says.
        progress: called while features are extracted.
        reader: has parsed the files already.
    """
    views = data.views if training else 1
    opener = _Opener(data, model, cache, views, progress, reader or DatasetReader(data))
    parts = data.resolve(split)
    splits = [opener.open(source, name) for source, name in parts]
    joined = join_splits([source for source, _ in parts], splits)
    if not (training and data.short_texts):
        return joined
    short = short_texts(joined.dataset)
    inputs = opener.texts(short.texts, "short texts", exact=False)
    return replace(joined, texts=JoinedLoader([joined.texts, inputs]), short_texts=short)


def join_splits(sources: Sequence[SourceConfig], splits: Sequence[SplitData]) -> SplitData:
    """Splits of several datasets as one."""
    if len(splits) == 1:
        return splits[0]
    counts = [len(split.dataset) for split in splits]
    return SplitData(
        join_datasets([source.name for source in sources], [split.dataset for split in splits]),
        JoinedLoader([split.images for split in splits]),
        JoinedLoader([split.texts for split in splits]),
        np.repeat([source.weight for source in sources], counts),
    )


@dataclass(frozen=True)
class _Opener:
    """Opens splits of single datasets for one model."""

    data: DataConfig
    model: Model
    cache: Path
    views: int
    progress: ProgressCallback | None
    reader: DatasetReader

    def open(self, source: SourceConfig, split: str) -> SplitData:
        dataset = self.reader.read_source(source, split)
        image = self.model.config.image
        if image.kind == "convolution" and image.is_cached:
            dataset, images = self._cached_maps(source, split, dataset)
        elif image.kind == "regions":
            images = self._regions(dataset)
        else:
            crop = self._crop() if self.data.crop_scale < 1 else None
            preprocess = self.model.image_backbone().preprocess
            images = ImageLoader(image_paths(dataset), preprocess, crop)
        # Queries are encoded in float32 in a search, so evaluated captions are too; otherwise the
        # last digits of a recall would differ. Training captions, most of the cache, are rounded.
        exact = split != source.train
        texts = self.texts(dataset.captions, f"{split} captions", exact)
        return SplitData(dataset, images, texts)

    def _cached_maps(
        self, source: SourceConfig, split: str, dataset: CaptionDataset
    ) -> tuple[CaptionDataset, InputLoader]:
        """Cached maps, and the images that could be read."""
        # Splits are cached separately, so that "train+val" uses the caches of "train" and "val".
        names = [split] if self.data.limit or "+" not in split else split.split("+")
        parts = [self.reader.read_source(source, name) for name in names]
        paths = [image_paths(part) for part in parts]
        caches = [self._cache_images(*pair) for pair in zip(names, paths, strict=True)]
        maps = CachedMaps(*(cache.folders for cache in caches))
        if maps.unreadable:
            log.warning(
                "%d images of %s cannot be read and are skipped: %s",
                len(maps.unreadable),
                split,
                a_few(sorted(maps.unreadable)),
            )
        row_of = {path: row for row, path in enumerate(chain.from_iterable(paths))}
        rows = np.array([row_of[path] for path in image_paths(dataset)])
        readable = np.flatnonzero(maps.valid[rows])
        if len(readable) < len(dataset):
            dataset = dataset.subset(readable.tolist())
        return dataset, MapLoader(maps, rows[readable], self.data.drop_inputs, self._grid(maps))

    def _cache_images(self, name: str, paths: Sequence[Path]) -> CachedMaps:
        return cache_images(
            self.model.image_backbone(),
            paths,
            self.cache,
            views=self.views,
            augmentation=self._crop() if self.views > 1 else None,
            progress=task_progress(self.progress, f"features of {name} images"),
        )

    def _crop(self) -> RandomResizedCrop:
        return RandomResizedCrop(scale=(self.data.crop_scale, 1.0))

    def _grid(self, maps: CachedMaps) -> tuple[int, int] | None:
        """Rows and columns of the last map, if it is not the cached one."""
        grid, blocks = self.model.config.image.grid, self.model.image_encoder.backbone
        if grid is not None:
            return grid, grid
        if blocks is None:
            return None
        with torch.no_grad(), evaluation_mode(blocks):
            rows, columns = blocks(torch.zeros(1, *maps.shape, device=blocks.device)).shape[2:]
        return rows, columns

    def _regions(self, dataset: CaptionDataset) -> RegionLoader:
        width = self.model.config.image.input_width
        if dataset.regions is None:
            raise DataError(
                f"{dataset.name} has no region features, which image.kind regions reads; give "
                "data.regions, or a precomp folder"
            )
        if dataset.regions.width != width:
            raise DataError(
                f"regions of {dataset.name} are {dataset.regions.width} wide, the model reads "
                f"{width}; set model.image.input_width"
            )
        return RegionLoader(dataset.regions, self.data.drop_inputs)

    def texts(self, texts: Sequence[str], name: str, exact: bool) -> InputLoader:
        """Inputs of texts; cached states are in float32 if they are to be exact."""
        text, drop = self.model.config.text, self.data.drop_words
        if text.kind == "bigru":
            if self.model.vocabulary is None:
                raise DataError("a bi-GRU needs its vocabulary; load the model with it")
            vocabulary = self.model.vocabulary
            return WordLoader([vocabulary.encode(text) for text in texts], len(vocabulary), drop)
        if not text.is_cached:
            return TokenLoader(tokenize_in_chunks(self.model.text_backbone(), texts), drop)
        tokens = cache_texts(
            self.model.text_backbone(),
            texts,
            self.cache,
            precision="float32" if exact else "bfloat16",
            storage="float32" if exact else "float16",
            progress=task_progress(self.progress, f"states of {name}"),
        )
        return StateLoader(tokens, drop)


def image_paths(dataset: CaptionDataset) -> tuple[Path, ...]:
    """The image files of a dataset; raises if it has none."""
    if dataset.image_paths is None:
        raise DataError(
            f"{dataset.name} has no images, which image.kind convolution reads; give data.images "
            "(--images of `diverset evaluate`), their folder"
        )
    return dataset.image_paths


def task_progress(progress: ProgressCallback | None, task: str) -> TaskCallback | None:
    """Progress of one task, for functions that report only (done, total)."""
    return None if progress is None else partial(progress, task)
