from pathlib import Path
from typing import Any

import numpy as np
import pytest

from diverset.data import Collection
from diverset.errors import DataError, DiversetError


class FakeRegions:
    width = 2

    def __init__(self, count: int) -> None:
        self.count = count

    def __len__(self) -> int:
        return self.count

    def __getitem__(self, index: int, /) -> np.ndarray:
        return np.full((index + 1, 2), index, np.float32)


def make(**changes: Any) -> Collection:
    fields: dict[str, Any] = {
        "name": "pets",
        "image_ids": ("cat", "dog", "emu"),
        # Not grouped by image, and not equally many each.
        "captions": ("a dog", "a cat", "it barks", "an emu"),
        "owners": np.array([1, 0, 1, 2]),
        "pictures": (Path("c.jpg"), Path("d.jpg"), Path("e.jpg")),
        "regions": FakeRegions(3),
        "caption_ids": ("10", "11", "12", "13"),
    }
    return Collection(**{**fields, **changes})


def test_captions_of_any_number():
    pets = make()
    assert len(pets) == 3
    assert pets.captions_of(1) == ("a dog", "it barks")
    assert pets.captions_of(-1) == ("an emu",)
    assert pets.caption_indices(0).tolist() == [1]
    with pytest.raises(IndexError):
        pets.captions_of(3)


def test_subset_keeps_everything_together():
    pets = make().subset([2, 1])
    assert pets.image_ids == ("emu", "dog")
    assert pets.captions == ("an emu", "a dog", "it barks")
    assert pets.owners.tolist() == [0, 1, 1]
    assert pets.caption_ids == ("13", "10", "12")
    assert pets.pictures == (Path("e.jpg"), Path("d.jpg"))
    assert pets.regions is not None
    assert pets.regions.width == 2
    assert [len(pets.regions[i]) for i in range(2)] == [3, 2]
    again = pets.subset([1])
    assert again.regions is not None and len(again.regions) == 1
    assert again.regions[0][0, 0] == 1


def test_subset_of_a_bare_collection():
    pets = make(pictures=None, regions=None, caption_ids=None).subset(range(1))
    assert (pets.pictures, pets.regions, pets.caption_ids) == (None, None, None)


def test_owners_cannot_be_changed_afterwards():
    owners = np.array([1, 0, 1, 2])
    pets = make(owners=owners)
    owners[0] = 0
    assert pets.owners.tolist() == [1, 0, 1, 2]
    with pytest.raises(ValueError, match="read-only"):
        pets.owners[0] = 0


def test_with_regions():
    regions = FakeRegions(3)
    assert make(regions=None).with_regions(regions).regions is regions
    with pytest.raises(DataError, match="3 images and 2 regions"):
        make().with_regions(FakeRegions(2))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"image_ids": ("cat", "dog", "cat")}, "'cat' stands twice in the image ids of pets"),
        ({"caption_ids": ("10", "11", "12", "10")}, "'10' stands twice in the caption ids"),
        ({"image_ids": ()}, "pets has no images"),
        ({"owners": np.array([1, 0, 1, 7])}, "caption 3 of pets belongs to image 7"),
        ({"owners": np.array([1, 0, -1, 2])}, "caption 2 of pets belongs to image -1"),
        ({"owners": np.array([0, 0, 0, 0])}, "2 images of pets have no caption: 'dog', 'emu'"),
        ({"owners": np.array([0, 1, 2])}, "4 captions and 3 owners"),
        ({"owners": np.array([0.0, 1, 1, 2])}, "owners of pets are float64"),
        ({"owners": np.array([[0, 1, 1, 2]])}, r"shape \(1, 4\)"),
        ({"caption_ids": ("10",)}, "4 captions and 1 caption_ids"),
        ({"pictures": (Path("c.jpg"),)}, "3 images and 1 pictures"),
        ({"regions": FakeRegions(5)}, "3 images and 5 regions"),
        ({"captions": ("a dog", "a cat", " ", "an emu")}, "caption 2 of pets .*'dog'.* no words"),
    ],
)
def test_contradictions_are_named(changes: dict[str, Any], message: str):
    with pytest.raises(DataError, match=message) as caught:
        make(**changes)
    assert isinstance(caught.value, DiversetError)


@pytest.mark.parametrize("index", [3, -1])
def test_subset_outside(index: int):
    with pytest.raises(DataError, match=f"image index {index} is not in pets"):
        make().subset([0, index])


def test_empty_or_repeating_subset():
    with pytest.raises(DataError, match="no images"):
        make().subset([])
    with pytest.raises(DataError, match="'dog' stands twice"):
        make().subset([1, 1])
