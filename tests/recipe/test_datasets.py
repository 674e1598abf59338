"""Reading the datasets of a recipe: one, or several together."""

import json

import pytest

from diverset.data import KarpathyFile
from diverset.errors import DataError, OptionError
from diverset.recipe.config import DataConfig, SourceConfig
from diverset.recipe.datasets import DatasetReader, read_split, recipe_splits


@pytest.fixture
def folder(tmp_path):
    """Two small Karpathy files with the same image ids."""
    for name, captions in (("cats", ["a cat"]), ("dogs", ["a dog", "it barks"])):
        images = [
            {
                "split": split,
                "filename": f"{number}.jpg",
                "sentences": [{"raw": f"{caption} {number}"} for caption in captions],
                **({"labels": ["dog"]} if name == "dogs" else {}),
            }
            for number, split in enumerate(("train", "train", "val", "test"))
        ]
        (tmp_path / name).mkdir()
        (tmp_path / name / "dataset.json").write_text(json.dumps({"images": images}))
    return tmp_path


def both(folder, **dogs) -> DataConfig:
    return DataConfig(
        root=str(folder),
        sources=(
            SourceConfig(name="cats", root="cats", file="dataset.json"),
            SourceConfig(name="dogs", root="dogs", file="dataset.json", **dogs),
        ),
    )


def test_sources_are_joined_with_prefixed_ids(folder):
    dataset = read_split(both(folder), "train")
    assert dataset.image_ids == ("cats:0", "cats:1", "dogs:0", "dogs:1")
    assert dataset.captions_of(1) == ("a cat 1",)
    assert dataset.captions_of(2) == ("a dog 0", "it barks 0")
    assert dataset.labels == ((), (), ("dog",), ("dog",))


def test_one_source_is_read_by_its_name(folder):
    data = both(folder, val=None)
    assert read_split(data, "dogs:test").image_ids == ("3",)
    assert read_split(data, "val").image_ids == ("2",)
    assert data.validation_splits() == {"cats": "cats:val"}
    for split in ("birds:val", "dev", "dogs:"):
        with pytest.raises(OptionError, match="choose one of: train, val, test, cats:SPLIT"):
            read_split(data, split)


def test_splits_of_several_datasets_are_listed_by_dataset():
    sources = (SourceConfig(name="a"), SourceConfig(name="b", val="dev", test=None))
    assert recipe_splits(DataConfig(sources=sources)) == [
        *("a:train", "a:val", "a:test"),
        *("b:train", "b:dev"),
    ]


def test_limit_applies_to_every_source(folder):
    data = DataConfig(root=str(folder), sources=both(folder).sources, limit=1)
    assert read_split(data, "train").image_ids == ("cats:0", "dogs:0")


def test_a_file_is_parsed_once_for_all_splits(folder):
    reader = DatasetReader(DataConfig(root=str(folder / "cats"), file="dataset.json"))
    train = reader.read("train")
    (folder / "cats" / "dataset.json").unlink()
    assert reader.read("train") is train
    assert reader.read("val").image_ids == ("2",)


def test_a_missing_caption_file_is_named(folder, monkeypatch):
    monkeypatch.chdir(folder)
    with pytest.raises(
        DataError, match="no dataset.json here; give the folder of the data: --data.root"
    ):
        read_split(DataConfig(file="dataset.json"), "train")
    with pytest.raises(DataError, match="give data.file"):
        read_split(DataConfig(root="cats"), "train")


def test_labels_must_be_a_list(folder):
    file = folder / "dogs" / "dataset.json"
    file.write_text(file.read_text().replace('["dog"]', '"dog"'))
    with pytest.raises(DataError, match=r"images\[0\]"):
        KarpathyFile(file)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"sources": (SourceConfig(),)}, "give each a name"),
        ({"sources": (SourceConfig(name="a"), SourceConfig(name="a"))}, "a name of its own"),
        ({"sources": (SourceConfig(name="a"),), "file": "x.json"}, "move data.file into a source"),
        ({"sources": (SourceConfig(name="a", val=None),)}, "no data source has a split for val"),
    ],
)
def test_sources_that_contradict_each_other_are_refused(options, message):
    with pytest.raises(OptionError, match=message):
        DataConfig(**options)
