import json
import logging
from pathlib import Path
from typing import Any

import pytest

from diverset.data import read_karpathy
from diverset.errors import DataError, OptionError


def entry(name: str, split: str, count: int = 2, **more: Any) -> dict[str, Any]:
    sentences = [{"raw": f" {name} said {i} \n", "sentid": hash((name, i))} for i in range(count)]
    return {"filename": f"{name}.jpg", "split": split, "sentences": sentences, **more}


@pytest.fixture
def dataset(tmp_path: Path) -> Path:
    images = [
        entry("a", "train", filepath="val2014", cocoid=7),
        entry("b", "restval", count=1),
        entry("c", "val", count=5),
    ]
    file = tmp_path / "dataset_tiny.json"
    file.write_text(json.dumps({"dataset": "tiny", "images": images}))
    (tmp_path / "val2014").mkdir()
    for name in ("val2014/a.jpg", "b.jpg", "c.jpg"):
        (tmp_path / name).touch()
    return file


def test_one_split(dataset: Path):
    collection = read_karpathy(dataset, dataset.parent, "val")
    assert collection.name == "tiny/val"
    assert collection.image_ids == ("c",)
    assert collection.captions == tuple(f"c said {i}" for i in range(5))
    assert collection.pictures == (dataset.parent / "c.jpg",)
    assert collection.caption_ids is not None and len(collection.caption_ids) == 5


def test_union_of_splits_with_folder_and_coco_id(dataset: Path):
    collection = read_karpathy(dataset, dataset.parent, "train+restval")
    assert collection.image_ids == ("7", "b")
    assert collection.owners.tolist() == [0, 0, 1]
    assert collection.pictures is not None
    assert [picture.parent.name for picture in collection.pictures][0] == "val2014"


def test_pictures_all_in_one_folder(dataset: Path):
    (dataset.parent / "val2014" / "a.jpg").rename(dataset.parent / "a.jpg")
    assert read_karpathy(dataset, dataset.parent, "train").pictures == (dataset.parent / "a.jpg",)


def test_without_pictures_and_caption_ids(tmp_path: Path):
    file = tmp_path / "dataset_x.json"
    image = {"filename": "a.jpg", "split": "test", "sentences": [{"raw": "hello"}]}
    file.write_text(json.dumps({"images": [image]}))
    collection = read_karpathy(file, None, "test")
    assert (collection.name, collection.pictures) == ("dataset_x/test", None)
    assert collection.caption_ids is None


def test_missing_pictures(dataset: Path, caplog: pytest.LogCaptureFixture):
    (dataset.parent / "b.jpg").unlink()
    with pytest.raises(DataError, match="1 of 3 pictures of tiny/train.*'b.jpg'.*skip"):
        read_karpathy(dataset, dataset.parent, "train+restval+val")
    with caplog.at_level(logging.WARNING):
        kept = read_karpathy(dataset, dataset.parent, "train+restval+val", missing="skip")
    assert kept.image_ids == ("7", "c")
    assert kept.owners.tolist() == [0, 0, 1, 1, 1, 1, 1]
    assert "'b.jpg'" in caplog.text and "left out" in caplog.text


def test_nothing_left_after_skipping(dataset: Path, tmp_path: Path):
    with pytest.raises(DataError, match="1 of 1 pictures .*nowhere"):
        read_karpathy(dataset, tmp_path / "nowhere", "val", missing="skip")


def test_unknown_option(dataset: Path):
    with pytest.raises(OptionError, match="missing is 'ignore'.*error, skip"):
        read_karpathy(dataset, dataset.parent, "val", missing="ignore")


def test_unknown_split_lists_the_others(dataset: Path):
    with pytest.raises(DataError, match=r"no split 'dev'; it has: restval \(1\), train \(1\)"):
        read_karpathy(dataset, dataset.parent, "train+dev")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[]", "holds a list"),
        ("{}", "no list 'images'"),
        ('{"images": [', "not complete JSON"),
        ("[" * 100_000, "nested too deeply"),
        ('{"images": [{"filename": "a.jpg"}]}', r"images\[0\]"),
        (
            '{"images": [{"filename": "a.jpg", "split": "val", "sentences": ["x"]}]}',
            r"sentences\[\].raw",
        ),
        (
            '{"images": [{"filename": "a.jpg", "split": "val", "sentences": []}]}',
            "have no caption: 'a'",
        ),
    ],
)
def test_broken_files(tmp_path: Path, text: str, message: str):
    file = tmp_path / "broken.json"
    file.write_text(text)
    with pytest.raises(DataError, match=message):
        read_karpathy(file, None, "val")


def test_unreadable_files(tmp_path: Path):
    with pytest.raises(DataError, match="absent.json.*check the path"):
        read_karpathy(tmp_path / "absent.json", None, "val")
    (tmp_path / "latin.json").write_bytes(b'{"caf\xe9": 1}')
    with pytest.raises(DataError, match="latin.json is not UTF-8 at byte 5"):
        read_karpathy(tmp_path / "latin.json", None, "val")
