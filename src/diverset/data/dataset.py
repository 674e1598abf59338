"""One split of a caption dataset: images, captions, and the image of each caption."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from diverset.data.regions import Regions, SelectedRegions
from diverset.errors import DataError, a_few

ALL = "all"  # name of a split: everything in the caption files


@dataclass(frozen=True, eq=False)
class CaptionDataset:
    """Images and captions of one split; every image has at least one caption.

    >>> pets = CaptionDataset("pets", ("cat", "dog"), ("a cat", "a dog", "it barks"),
    ...                   np.array([0, 1, 1]))
    >>> len(pets), pets.captions_of(1)
    (2, ('a dog', 'it barks'))

    Attributes:
        name: the dataset and the split, for messages and reports.
        image_ids: one unique id per image.
        captions: all captions of all images.
        image_index: for each caption the index of its image.
        image_paths: one file per image, or None.
        regions: precomputed region features, one entry per image, or None.
        caption_ids: one unique id per caption, or None.
        labels: the names of objects in each image, or None.
    """

    name: str
    image_ids: tuple[str, ...]
    captions: tuple[str, ...]
    image_index: NDArray[np.int64]
    image_paths: tuple[Path, ...] | None = None
    regions: Regions | None = None
    caption_ids: tuple[str, ...] | None = None
    labels: tuple[tuple[str, ...], ...] | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "image_index", _frozen_integers(self.name, self.image_index))
        self._check_lengths()
        _check_unique(f"image ids of {self.name}", self.image_ids)
        _check_unique(f"caption ids of {self.name}", self.caption_ids or ())
        self._check_image_index()
        for index, caption in enumerate(self.captions):
            if not caption.strip():
                raise DataError(
                    f"caption {index} of {self.name} (image "
                    f"{self.image_ids[self.image_index[index]]!r}) has no words: {caption!r}; "
                    "remove it from the file"
                )

    def __len__(self) -> int:
        """The number of images."""
        return len(self.image_ids)

    def caption_indices(self, image: int) -> NDArray[np.int64]:
        """Indices into `captions` of the captions of an image."""
        order, starts = self._by_image
        image = range(len(self))[image]
        return order[starts[image] : starts[image + 1]]

    def captions_of(self, image: int) -> tuple[str, ...]:
        """The captions of the image with this index."""
        return tuple(self.captions[index] for index in self.caption_indices(image))

    def subset(self, indices: Iterable[int]) -> CaptionDataset:
        """The images with these indices, in this order, with all their captions.

        >>> pets = CaptionDataset("pets", ("cat", "dog"), ("a cat", "a dog"), np.array([0, 1]))
        >>> pets.subset([1]).captions
        ('a dog',)
        """
        images = np.fromiter(indices, dtype=np.int64)
        wrong = images[(images < 0) | (images >= len(self))]
        if len(wrong):
            raise DataError(
                f"image index {int(wrong[0])} is not in {self.name}, which has {len(self)} "
                f"images; use indices from 0 to {len(self) - 1}"
            )
        groups = [self.caption_indices(int(image)) for image in images]
        captions = np.concatenate(groups) if groups else np.zeros(0, np.int64)
        paths, ids, labels = self.image_paths, self.caption_ids, self.labels
        return CaptionDataset(
            name=self.name,
            image_ids=tuple(self.image_ids[image] for image in images),
            captions=tuple(self.captions[caption] for caption in captions),
            image_index=np.repeat(np.arange(len(images)), [len(group) for group in groups]),
            image_paths=None if paths is None else tuple(paths[image] for image in images),
            regions=None if self.regions is None else SelectedRegions(self.regions, images),
            caption_ids=None if ids is None else tuple(ids[caption] for caption in captions),
            labels=None if labels is None else tuple(labels[image] for image in images),
        )

    @cached_property
    def _by_image(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        # Searching image_index for every image would make an epoch quadratic.
        order = np.argsort(self.image_index, kind="stable")
        starts = np.searchsorted(self.image_index[order], np.arange(len(self) + 1))
        return order, starts

    def _check_lengths(self) -> None:
        if not self.image_ids:
            raise DataError(
                f"{self.name} has no images; check the name of the split and the files behind it"
            )
        images, captions = len(self.image_ids), len(self.captions)
        for name, values, expected, unit in (
            ("image_index", self.image_index, captions, "caption"),
            ("caption_ids", self.caption_ids, captions, "caption"),
            ("image_paths", self.image_paths, images, "image"),
            ("regions", self.regions, images, "image"),
            ("labels", self.labels, images, "image"),
        ):
            if values is not None and len(values) != expected:
                raise DataError(
                    f"{self.name} has {expected} {unit}s and {len(values)} {name}; "
                    f"give one per {unit}"
                )

    def _check_image_index(self) -> None:
        outside = np.flatnonzero((self.image_index < 0) | (self.image_index >= len(self)))
        if len(outside):
            caption = int(outside[0])
            raise DataError(
                f"caption {caption} of {self.name} belongs to image "
                f"{int(self.image_index[caption])}, but there are {len(self)} images; "
                f"give indices from 0 to {len(self) - 1}"
            )
        counts = np.bincount(self.image_index, minlength=len(self))
        bare = [self.image_ids[image] for image in np.flatnonzero(counts == 0)]
        if bare:
            raise DataError(
                f"{len(bare)} images of {self.name} have no caption: {a_few(bare)}; "
                "leave them out or add captions"
            )


def _frozen_integers(name: str, image_index: NDArray[np.int64]) -> NDArray[np.int64]:
    array = np.array(image_index)
    if array.ndim != 1 or (array.size and array.dtype.kind not in "iu"):
        raise DataError(
            f"image_index of {name} is {array.dtype} of shape {array.shape}; "
            "give one image index per caption"
        )
    array = array.astype(np.int64)
    array.setflags(write=False)
    return array


def _check_unique(what: str, values: tuple[str, ...]) -> None:
    if len(set(values)) < len(values):
        ((duplicate, _),) = Counter(values).most_common(1)
        raise DataError(f"duplicate id {duplicate!r} in the {what}; ids must be unique")
