from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from diverset.data import CaptionDataset
from diverset.errors import DataError, DiversetError


class FakeRegions:
    width = 2

    def __init__(self, count: int) -> None:
        self.count = count

    def __len__(self) -> int:
        return self.count

    def __getitem__(self, index: int, /) -> np.ndarray:
        return np.full((index + 1, 2), index, np.float32)


def make(**changes: Any) -> CaptionDataset:
    fields: dict[str, Any] = {
        "name": "pets",
        "image_ids": ("cat", "dog", "emu"),
        # Not grouped by image, and not equally many each.
        "captions": ("a dog", "a cat", "it barks", "an emu"),
        "image_index": np.array([1, 0, 1, 2]),
        "image_paths": (Path("c.jpg"), Path("d.jpg"), Path("e.jpg")),
        "regions": FakeRegions(3),
        "caption_ids": ("10", "11", "12", "13"),
    }
    return CaptionDataset(**{**fields, **changes})


def test_images_may_have_different_numbers_of_captions():
    pets = make()
    assert len(pets) == 3
    assert pets.captions_of(1) == ("a dog", "it barks")
    assert pets.captions_of(-1) == ("an emu",)
    assert pets.caption_indices(0).tolist() == [1]
    with pytest.raises(IndexError):
        pets.captions_of(3)


def test_subset_selects_captions_ids_paths_and_regions():
    pets = make().subset([2, 1])
    assert pets.image_ids == ("emu", "dog")
    assert pets.captions == ("an emu", "a dog", "it barks")
    assert pets.image_index.tolist() == [0, 1, 1]
    assert pets.caption_ids == ("13", "10", "12")
    assert pets.image_paths == (Path("e.jpg"), Path("d.jpg"))
    assert pets.regions is not None
    assert pets.regions.width == 2
    assert [len(pets.regions[i]) for i in range(2)] == [3, 2]
    again = pets.subset([1])
    assert again.regions is not None and len(again.regions) == 1
    assert again.regions[0][0, 0] == 1


def test_subset_without_optional_fields():
    pets = make(image_paths=None, regions=None, caption_ids=None).subset(range(1))
    assert (pets.image_paths, pets.regions, pets.caption_ids) == (None, None, None)


def test_image_index_is_a_read_only_copy():
    image_index = np.array([1, 0, 1, 2])
    pets = make(image_index=image_index)
    image_index[0] = 0
    assert pets.image_index.tolist() == [1, 0, 1, 2]
    with pytest.raises(ValueError, match="read-only"):
        pets.image_index[0] = 0


def test_regions_can_be_added_later():
    regions = FakeRegions(3)
    assert replace(make(regions=None), regions=regions).regions is regions
    with pytest.raises(DataError, match="3 images and 2 regions"):
        replace(make(), regions=FakeRegions(2))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"image_ids": ("cat", "dog", "cat")}, "duplicate id 'cat' in the image ids of pets"),
        ({"caption_ids": ("10", "11", "12", "10")}, "duplicate id '10' in the caption ids"),
        ({"image_ids": ()}, "pets has no images"),
        ({"image_index": np.array([1, 0, 1, 7])}, "caption 3 of pets belongs to image 7"),
        ({"image_index": np.array([1, 0, -1, 2])}, "caption 2 of pets belongs to image -1"),
        ({"image_index": np.array([0, 0, 0, 0])}, "2 images of pets have no caption: 'dog', 'emu'"),
        ({"image_index": np.array([0, 1, 2])}, "4 captions and 3 image_index"),
        ({"image_index": np.array([0.0, 1, 1, 2])}, "image_index of pets is float64"),
        ({"image_index": np.array([[0, 1, 1, 2]])}, r"shape \(1, 4\)"),
        ({"caption_ids": ("10",)}, "4 captions and 1 caption_ids"),
        ({"image_paths": (Path("c.jpg"),)}, "3 images and 1 image_paths"),
        ({"regions": FakeRegions(5)}, "3 images and 5 regions"),
        ({"captions": ("a dog", "a cat", " ", "an emu")}, "caption 2 of pets .*'dog'.* no words"),
    ],
)
def test_contradicting_fields_are_rejected(changes: dict[str, Any], message: str):
    with pytest.raises(DataError, match=message) as caught:
        make(**changes)
    assert isinstance(caught.value, DiversetError)


@pytest.mark.parametrize("index", [3, -1])
def test_subset_rejects_indices_out_of_range(index: int):
    with pytest.raises(DataError, match=f"image index {index} is not in pets"):
        make().subset([0, index])


def test_subset_rejects_no_images_and_duplicates():
    with pytest.raises(DataError, match="no images"):
        make().subset([])
    with pytest.raises(DataError, match="duplicate id 'dog'"):
        make().subset([1, 1])
