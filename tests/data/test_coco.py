import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from diverset.data import read_coco
from diverset.errors import DataError


def write(file: Path, images: list[int], captions: list[tuple[int, int, str]]) -> Path:
    content = {
        "images": [{"id": image, "file_name": f"COCO_{image}.jpg"} for image in images],
        "annotations": [{"id": i, "image_id": image, "caption": c} for i, image, c in captions],
    }
    file.write_text(json.dumps(content))
    return file


def ids(file: Path, values: Any) -> Path:
    np.save(file, np.array(values))
    return file


@pytest.fixture
def train(tmp_path: Path) -> Path:
    captions = [(1, 50, "one "), (2, 40, "two"), (3, 50, "three")]
    return write(tmp_path / "captions_train2014.json", [40, 50], captions)


@pytest.fixture
def val(tmp_path: Path) -> Path:
    return write(tmp_path / "captions_val2014.json", [60], [(4, 60, "four")])


def test_images_are_in_order_of_first_appearance(tmp_path: Path, train: Path, val: Path):
    arrays = [ids(tmp_path / "a.npy", [3, 4]), ids(tmp_path / "b.npy", [2, 1])]
    dataset = read_coco([train, val], arrays, None)
    assert dataset.image_ids == ("50", "60", "40")
    assert dataset.captions == ("three", "one", "four", "two")
    assert dataset.caption_ids == ("3", "1", "4", "2")
    assert dataset.image_index.tolist() == [0, 0, 1, 2]
    assert dataset.image_paths is None


def test_images_are_found_with_or_without_the_folder_of_the_year(
    tmp_path: Path, train: Path, val: Path
):
    for name in ("COCO_40.jpg", "train2014/COCO_50.jpg", "val2014/COCO_60.jpg"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).touch()
    paths = read_coco([train, val], None, tmp_path).image_paths
    assert paths is not None
    assert [str(path.relative_to(tmp_path)) for path in paths] == [
        "train2014/COCO_50.jpg",
        "COCO_40.jpg",
        "val2014/COCO_60.jpg",
    ]


def test_missing_images_are_an_error_or_skipped(tmp_path: Path, train: Path):
    with pytest.raises(DataError, match="2 of 2 images of coco .*'COCO_50.jpg'"):
        read_coco([train], None, tmp_path)
    (tmp_path / "COCO_40.jpg").touch()
    assert read_coco([train], None, tmp_path, missing="skip").image_ids == ("40",)


def test_unknown_and_duplicate_ids_are_rejected(tmp_path: Path, train: Path):
    with pytest.raises(DataError, match="1 caption ids are not in .*: 99; give"):
        read_coco([train], [ids(tmp_path / "x.npy", [1, 99])], None)
    with pytest.raises(DataError, match="duplicate id '2' in the caption ids of coco"):
        read_coco([train], [ids(tmp_path / "y.npy", [2, 1, 2])], None)


@pytest.mark.parametrize("values", [[0.5, 1.0], [[1, 2]]])
def test_arrays_that_are_not_ids_are_rejected(tmp_path: Path, train: Path, values: Any):
    with pytest.raises(DataError, match="odd.npy holds .* of shape"):
        read_coco([train], [ids(tmp_path / "odd.npy", values)], None)


def test_missing_or_truncated_arrays_are_named(tmp_path: Path, train: Path):
    with pytest.raises(DataError, match="absent.npy"):
        read_coco([train], [tmp_path / "absent.npy"], None)
    cut = ids(tmp_path / "cut.npy", [1, 2, 3])
    cut.write_bytes(cut.read_bytes()[:-5])
    with pytest.raises(DataError, match="cut.npy"):
        read_coco([train], [cut], None)


def test_incomplete_annotations_are_rejected(tmp_path: Path):
    file = tmp_path / "captions_x.json"
    file.write_text('{"images": [{"id": 1}]}')
    with pytest.raises(DataError, match="captions_x.json has no 'file_name'"):
        read_coco([file], None, None)
    write(file, [1], [(5, 2, "lost")])
    with pytest.raises(DataError, match="caption 5 of .* refers to image 2"):
        read_coco([file], None, None)
    write(file, [1], [])
    with pytest.raises(DataError, match="coco has no images"):
        read_coco([file], None, None)
