"""One split of one dataset: images, their captions, and which belongs to which.

A collection knows ids, sentences and where the pixels or regions are to be found. It does not
know where it was read from, does not decode pictures and does not tokenise.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from diverset.data.regions import Regions, SelectedRegions
from diverset.errors import DataError, a_few


@dataclass(frozen=True, eq=False)
class Collection:
    """Images and captions of one split; an image may have any number of captions but none.

    >>> pets = Collection("pets", ("cat", "dog"), ("a cat", "a dog", "it barks"),
    ...                   np.array([0, 1, 1]))
    >>> len(pets), pets.captions_of(1)
    (2, ('a dog', 'it barks'))

    Attributes:
        name: the dataset and the split, for messages and reports.
        image_ids: one id an image, all different.
        captions: all captions of all images.
        owners: for each caption the index of its image.
        pictures: one file an image, where pictures are at hand.
        regions: precomputed region features, one entry an image, where they are at hand.
        caption_ids: one id a caption, all different, where the dataset has them.
    """

    name: str
    image_ids: tuple[str, ...]
    captions: tuple[str, ...]
    owners: NDArray[np.int64]
    pictures: tuple[Path, ...] | None = None
    regions: Regions | None = None
    caption_ids: tuple[str, ...] | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "owners", _frozen_integers(self.name, self.owners))
        self._check_lengths()
        _check_unique(f"image ids of {self.name}", self.image_ids)
        _check_unique(f"caption ids of {self.name}", self.caption_ids or ())
        self._check_owners()
        for index, caption in enumerate(self.captions):
            if not caption.strip():
                raise DataError(
                    f"caption {index} of {self.name} (image "
                    f"{self.image_ids[self.owners[index]]!r}) is {caption!r}, it has no words; "
                    "remove it from the file"
                )

    def __len__(self) -> int:
        """The number of images."""
        return len(self.image_ids)

    def caption_indices(self, image: int) -> NDArray[np.int64]:
        """Where the captions of an image stand in `captions`."""
        order, starts = self._by_image
        image = range(len(self))[image]
        return order[starts[image] : starts[image + 1]]

    def captions_of(self, image: int) -> tuple[str, ...]:
        """The captions of the image with this index."""
        return tuple(self.captions[index] for index in self.caption_indices(image))

    def subset(self, indices: Iterable[int]) -> Collection:
        """The images with these indices, in this order, with all their captions.

        >>> pets = Collection("pets", ("cat", "dog"), ("a cat", "a dog"), np.array([0, 1]))
        >>> pets.subset([1]).captions
        ('a dog',)
        """
        chosen = np.fromiter(indices, dtype=np.int64)
        wrong = chosen[(chosen < 0) | (chosen >= len(self))]
        if len(wrong):
            raise DataError(
                f"image index {int(wrong[0])} is not in {self.name}, which has {len(self)} "
                f"images; use indices from 0 to {len(self) - 1}"
            )
        groups = [self.caption_indices(int(image)) for image in chosen]
        kept = np.concatenate(groups) if groups else np.zeros(0, np.int64)
        pictures, caption_ids = self.pictures, self.caption_ids
        return Collection(
            name=self.name,
            image_ids=tuple(self.image_ids[image] for image in chosen),
            captions=tuple(self.captions[index] for index in kept),
            owners=np.repeat(np.arange(len(chosen)), [len(group) for group in groups]),
            pictures=None if pictures is None else tuple(pictures[image] for image in chosen),
            regions=None if self.regions is None else SelectedRegions(self.regions, chosen),
            caption_ids=None if caption_ids is None else tuple(caption_ids[i] for i in kept),
        )

    def with_regions(self, regions: Regions) -> Collection:
        """The same split with region features, one entry an image in the same order."""
        return replace(self, regions=regions)

    @cached_property
    def _by_image(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        # A scan of all owners for each image would make one epoch quadratic.
        order = np.argsort(self.owners, kind="stable")
        starts = np.searchsorted(self.owners[order], np.arange(len(self) + 1))
        return order, starts

    def _check_lengths(self) -> None:
        if not self.image_ids:
            raise DataError(
                f"{self.name} has no images; check the name of the split and the files behind it"
            )
        images, captions = len(self.image_ids), len(self.captions)
        for what, found, wanted, unit in (
            ("owners", len(self.owners), captions, "caption"),
            ("caption_ids", captions if self.caption_ids is None else len(self.caption_ids),
             captions, "caption"),
            ("pictures", images if self.pictures is None else len(self.pictures),
             images, "image"),
            ("regions", images if self.regions is None else len(self.regions),
             images, "image"),
        ):  # fmt: skip
            if found != wanted:
                raise DataError(
                    f"{self.name} has {wanted} {unit}s and {found} {what}; give one a {unit}"
                )

    def _check_owners(self) -> None:
        outside = np.flatnonzero((self.owners < 0) | (self.owners >= len(self)))
        if len(outside):
            caption = int(outside[0])
            raise DataError(
                f"caption {caption} of {self.name} belongs to image {int(self.owners[caption])}, "
                f"but there are {len(self)} images; owners go from 0 to {len(self) - 1}"
            )
        counts = np.bincount(self.owners, minlength=len(self))
        lonely = [self.image_ids[image] for image in np.flatnonzero(counts == 0)]
        if lonely:
            raise DataError(
                f"{len(lonely)} images of {self.name} have no caption: {a_few(lonely)}; "
                "leave them out or add captions"
            )


def _frozen_integers(name: str, owners: NDArray[np.int64]) -> NDArray[np.int64]:
    array = np.array(owners)
    if array.ndim != 1 or (array.size and array.dtype.kind not in "iu"):
        raise DataError(
            f"owners of {name} are {array.dtype} of shape {array.shape}; "
            "give one image index a caption"
        )
    array = array.astype(np.int64)
    array.setflags(write=False)
    return array


def _check_unique(what: str, values: tuple[str, ...]) -> None:
    seen: set[str] = set()
    for value in values:
        if value in seen:
            raise DataError(f"{value!r} stands twice in the {what}; every id must be its own")
        seen.add(value)
