import json
import logging
from pathlib import Path
from typing import Any

import pytest

from diverset.data import KarpathyFile
from diverset.errors import DataError, OptionError


def entry(name: str, split: str, count: int = 2, **more: Any) -> dict[str, Any]:
    sentences = [{"raw": f" {name} said {i} \n", "sentid": hash((name, i))} for i in range(count)]
    return {"filename": f"{name}.jpg", "split": split, "sentences": sentences, **more}


@pytest.fixture
def json_file(tmp_path: Path) -> Path:
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


def test_one_split_is_read(json_file: Path):
    dataset = KarpathyFile(json_file).read(json_file.parent, "val")
    assert dataset.name == "tiny/val"
    assert dataset.image_ids == ("c",)
    assert dataset.captions == tuple(f"c said {i}" for i in range(5))
    assert dataset.image_paths == (json_file.parent / "c.jpg",)
    assert dataset.caption_ids is not None and len(dataset.caption_ids) == 5


def test_the_name_of_a_split_may_be_a_number(tmp_path: Path):
    file = tmp_path / "dataset_folds.json"
    images = [entry("a", "train") | {"split": 1}, entry("b", "train") | {"split": 2}]
    file.write_text(json.dumps({"images": images}))
    assert KarpathyFile(file).read(None, "2").image_ids == ("b",)


def test_union_of_splits_with_folder_and_coco_id(json_file: Path):
    dataset = KarpathyFile(json_file).read(json_file.parent, "train+restval")
    assert dataset.image_ids == ("7", "b")
    assert dataset.image_index.tolist() == [0, 0, 1]
    assert dataset.image_paths is not None
    assert [path.parent.name for path in dataset.image_paths][0] == "val2014"


def test_images_may_be_in_one_folder(json_file: Path):
    (json_file.parent / "val2014" / "a.jpg").rename(json_file.parent / "a.jpg")
    assert KarpathyFile(json_file).read(json_file.parent, "train").image_paths == (
        json_file.parent / "a.jpg",
    )


def test_image_paths_and_caption_ids_are_optional(tmp_path: Path):
    file = tmp_path / "dataset_x.json"
    image = {"filename": "a.jpg", "split": "test", "sentences": [{"raw": "hello"}]}
    file.write_text(json.dumps({"images": [image]}))
    dataset = KarpathyFile(file).read(None, "test")
    assert (dataset.name, dataset.image_paths) == ("dataset_x/test", None)
    assert dataset.caption_ids is None


def test_missing_images_are_an_error_or_skipped(json_file: Path, caplog: pytest.LogCaptureFixture):
    (json_file.parent / "b.jpg").unlink()
    with pytest.raises(DataError, match="1 of 3 images of tiny/train.*'b.jpg'.*skip"):
        KarpathyFile(json_file).read(json_file.parent, "train+restval+val")
    with caplog.at_level(logging.WARNING):
        kept = KarpathyFile(json_file).read(json_file.parent, "train+restval+val", missing="skip")
    assert kept.image_ids == ("7", "c")
    assert kept.image_index.tolist() == [0, 0, 1, 1, 1, 1, 1]
    assert "'b.jpg'" in caplog.text and "left out" in caplog.text


def test_skipping_every_image_is_an_error(json_file: Path, tmp_path: Path):
    with pytest.raises(DataError, match="1 of 1 images .*nowhere"):
        KarpathyFile(json_file).read(tmp_path / "nowhere", "val", missing="skip")


def test_unknown_value_of_missing_is_rejected(json_file: Path):
    with pytest.raises(OptionError, match="missing is 'ignore'.*error, skip"):
        KarpathyFile(json_file).read(json_file.parent, "val", missing="ignore")


def test_unknown_split_lists_the_others(json_file: Path):
    with pytest.raises(DataError, match=r"no split 'dev'; it has: restval \(1\), train \(1\)"):
        KarpathyFile(json_file).read(json_file.parent, "train+dev")


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
def test_malformed_files_are_rejected(tmp_path: Path, text: str, message: str):
    file = tmp_path / "broken.json"
    file.write_text(text)
    with pytest.raises(DataError, match=message):
        KarpathyFile(file).read(None, "val")


def test_missing_and_non_utf8_files_are_named(tmp_path: Path):
    with pytest.raises(DataError, match="absent.json.*check the path"):
        KarpathyFile(tmp_path / "absent.json").read(None, "val")
    (tmp_path / "latin.json").write_bytes(b'{"caf\xe9": 1}')
    with pytest.raises(DataError, match="latin.json is not UTF-8 at byte 5"):
        KarpathyFile(tmp_path / "latin.json").read(None, "val")
