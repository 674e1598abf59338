"""Reading the captions of a recipe's datasets."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import cache
from itertools import chain
from pathlib import Path

import numpy as np

from diverset.data import (
    BottomUpRegions,
    CaptionDataset,
    KarpathyFile,
    read_coco,
    read_precomp,
    read_table,
)
from diverset.data.dataset import ALL
from diverset.errors import DataError
from diverset.recipe.config import ROLES, DataConfig, SourceConfig


class DatasetReader:
    """Reads splits of a recipe's datasets; files and splits are parsed once.

    Args:
        data: names the files.
        captions_only: do not look for images and regions.
        missing: what to do about missing images; see `attach_images`.
    """

    def __init__(
        self, data: DataConfig, captions_only: bool = False, missing: str = "error"
    ) -> None:
        self.data, self.captions_only, self.missing = data, captions_only, missing
        self.read_source = cache(self._read_source)
        self._karpathy = cache(KarpathyFile)

    def read(self, split: str) -> CaptionDataset:
        """The captions of a split with its images or regions; see `DataConfig.resolve`."""
        parts = self.data.resolve(split)
        datasets = [self.read_source(source, name) for source, name in parts]
        return join_datasets([source.name for source, _ in parts], datasets)

    def _read_source(self, source: SourceConfig, split: str) -> CaptionDataset:
        root, files, missing = Path(source.root), (source.file or "").split(","), self.missing
        if source.file and not root.is_absolute() and not (root / files[0]).exists():
            raise DataError(
                f"there is no {root / files[0]} here; give the folder of the data: --data.root, or "
                "--data of `diverset evaluate`"
            )
        if source.file is None and source.format != "precomp":
            raise DataError(f"format {source.format} needs a caption file; give data.file")
        paths = [root / file for file in files]
        images = root / source.images if source.images and not self.captions_only else None
        match source.format:
            case "karpathy":
                dataset = self._karpathy(paths[0]).read(images, split, missing=missing)
            case "coco":
                arrays = None if split == ALL else [root / ids for ids in split.split("+")]
                dataset = read_coco(paths, arrays, images, missing=missing)
            case "precomp":
                dataset = read_precomp(root, split)
            case _:
                dataset = read_table(paths[0], images, split, missing=missing)
        if source.regions and not self.captions_only:
            tsv_files = [root / file for file in source.regions.split(",")]
            dataset = replace(dataset, regions=BottomUpRegions(tsv_files, dataset.image_ids))
        limit = self.data.limit
        return dataset.subset(range(min(limit, len(dataset)))) if limit else dataset


def read_split(data: DataConfig, split: str, captions_only: bool = False) -> CaptionDataset:
    """Read one split; see `DatasetReader`."""
    return DatasetReader(data, captions_only).read(split)


def recipe_splits(data: DataConfig) -> list[str]:
    """The training, validation and test splits that a recipe names, of each of its datasets."""
    if not data.sources:
        return list(dict.fromkeys((data.train, data.val, data.test)))
    names = [(source.name, getattr(source, role)) for source in data.sources for role in ROLES]
    return list(dict.fromkeys(f"{source}:{split}" for source, split in names if split is not None))


def join_datasets(names: Sequence[str], datasets: Sequence[CaptionDataset]) -> CaptionDataset:
    """Several datasets as one; ids are prefixed by the names, so that they stay unique."""
    if len(datasets) == 1:
        return datasets[0]
    starts = np.cumsum([0, *map(len, datasets[:-1])])
    rows = [dataset.image_index + start for dataset, start in zip(datasets, starts, strict=True)]
    paths = [path for dataset in datasets for path in dataset.image_paths or ()]
    labels = chain.from_iterable(d.labels or ((),) * len(d) for d in datasets)
    return CaptionDataset(
        name=" + ".join(dataset.name for dataset in datasets),
        image_ids=tuple(
            f"{name}:{image_id}"
            for name, dataset in zip(names, datasets, strict=True)
            for image_id in dataset.image_ids
        ),
        captions=tuple(caption for dataset in datasets for caption in dataset.captions),
        image_index=np.concatenate(rows),
        image_paths=tuple(paths) if all(dataset.image_paths for dataset in datasets) else None,
        labels=tuple(labels) if any(dataset.labels for dataset in datasets) else None,
    )
