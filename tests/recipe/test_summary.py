"""`diverset data` on tiny data of each format, with missing and broken image files."""

import json

import numpy as np
import pytest
from PIL import Image

from diverset.cli import main

CAPTIONS = {
    "1.jpg": ("train", ["a dog", "A dog", "a brown dog runs"]),
    "2.jpg": ("train", ["a cat"]),
    "3.jpg": ("val", ["two boats at a pier"]),
}


@pytest.fixture
def folder(tmp_path):
    """The same three images and five captions as a table, a Karpathy file and COCO files."""
    (tmp_path / "images").mkdir()
    noise = np.random.default_rng(0).integers(256, size=(200, 300, 3), dtype=np.uint8)
    for name in CAPTIONS:
        Image.fromarray(noise).save(tmp_path / "images" / name)
    rows = [(name, text, split) for name, (split, texts) in CAPTIONS.items() for text in texts]
    lines = ["image,caption,split", *(",".join(row) for row in rows)]
    (tmp_path / "captions.csv").write_text("\n".join(lines))
    entries = [
        {"filename": name, "split": split, "sentences": [{"raw": text} for text in texts]}
        for name, (split, texts) in CAPTIONS.items()
    ]
    (tmp_path / "dataset.json").write_text(json.dumps({"images": entries}))
    coco = {
        "images": [{"id": int(name[0]), "file_name": name} for name in CAPTIONS],
        "annotations": [
            {"id": number, "image_id": int(name[0]), "caption": text}
            for number, (name, text, _) in enumerate(rows)
        ],
    }
    (tmp_path / "captions_all.json").write_text(json.dumps(coco))
    for split in ("train", "val"):
        ids = [number for number, row in enumerate(rows) if row[2] == split]
        np.save(tmp_path / f"{split}_ids.npy", np.array(ids))
    return tmp_path


def truncate(path):
    path.write_bytes(path.read_bytes()[:-2000])


def run(capsys, *args):
    """Exit code and the printed JSON."""
    code = main(["data", *map(str, args), "--json"])
    return code, json.loads(capsys.readouterr().out)


@pytest.mark.parametrize(
    ("file", "train", "val"),
    [
        ("captions.csv", "train", "val"),
        ("dataset.json", "train", "val"),
        ("captions_all.json", "train_ids.npy", "val_ids.npy"),
    ],
)
def test_all_splits_of_a_caption_file_are_summarized(folder, capsys, file, train, val):
    code, splits = run(capsys, folder / file, "--images", "images")
    assert code == 0 and list(splits) == [train, val]
    samples = [tuple(sample) for sample in splits[train].pop("samples")]
    assert splits[train] == {
        "images": 2,
        "captions": 4,
        "captions_per_image": [1, 2.0, 3],
        "words_per_caption": [2, 2.0, 4],
        "duplicate_captions": 1,
        "missing_files": [],
        "broken_files": [],
    }
    assert len(set(samples)) == 3
    assert all(caption in CAPTIONS[name][1] for name, caption in samples)
    assert splits[val]["words_per_caption"] == [5, 5.0, 5]
    assert run(capsys, folder, "--file", file, "--split", val)[1].keys() == {val}


@pytest.mark.parametrize("file", ["captions.csv", "dataset.json", "captions_all.json"])
def test_missing_and_broken_images_are_named_with_exit_code_1(folder, capsys, file):
    (folder / "images" / "1.jpg").unlink()
    truncate(folder / "images" / "3.jpg")
    code, splits = run(capsys, folder / file, "--images", "images")
    train, val = splits.values()
    assert code == 1
    assert train["missing_files"] == [str(folder / "images" / "1.jpg")]
    assert train["images"] == 2 and train["broken_files"] == []
    assert val["broken_files"] == [str(folder / "images" / "3.jpg")]


def test_quick_does_not_decode_images(folder, capsys):
    truncate(folder / "images" / "3.jpg")
    code, splits = run(capsys, folder / "captions.csv", "--images", "images", "--quick")
    assert code == 0
    assert (splits["val"]["missing_files"], splits["val"]["broken_files"]) == ([], None)


def test_a_folder_of_region_features_has_no_files_to_check(tmp_path, capsys):
    np.save(tmp_path / "dev_ims.npy", np.zeros((2, 3, 4), np.float32))
    (tmp_path / "dev_caps.txt").write_text("a\nb\nc\nd\n")
    code, splits = run(capsys, tmp_path)
    assert code == 0 and list(splits) == ["dev"]
    assert splits["dev"]["captions_per_image"] == [2, 2.0, 2]
    assert splits["dev"]["missing_files"] is None


def test_the_data_of_a_recipe_is_summarized_as_text(folder, capsys):
    recipe = folder / "recipe.yaml"
    recipe.write_text("data: {format: table, file: captions.csv, images: images}\n")
    truncate(folder / "images" / "3.jpg")
    assert main(["data", str(recipe), "--data.root", str(folder), "--data.test", "val"]) == 1
    output = capsys.readouterr().out
    assert "train\n  2 images, 4 captions\n  captions per image: 1 to 3, mean 2.00\n" in output
    assert f"broken image files: 1: '{folder / 'images' / '3.jpg'}'" in output
    assert output.count("two boats at a pier") == 1


def test_the_caption_file_of_a_folder_is_found(folder, capsys):
    by_folder = run(capsys, folder)
    assert by_folder == run(capsys, folder / "captions.csv", "--images", "images")


def test_a_split_that_cannot_be_read_does_not_hide_the_others(folder, capsys):
    recipe = folder / "recipe.yaml"
    recipe.write_text("data: {format: table, file: captions.csv, images: images}\n")
    code, splits = run(capsys, recipe, "--data.root", folder)
    assert code == 1 and splits["val"]["images"] == 1
    assert "no split 'test'" in splits["test"]["error"]


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (["nowhere"], "neither a recipe nor a file or folder nowhere"),
        (["images"], "has no caption file; give --file"),
        (["images", "--format", "table"], "has no caption file"),
        (["captions.csv", "--split", "dev"], "no split 'dev'"),
        (["captions.csv", "--file", "dataset.json"], "is a file"),
        (["captions.csv", "--data.root", "x"], "unrecognized arguments: --data.root x"),
        (["recipe.yaml", "--images", "x"], "a recipe takes --data.format"),
    ],
)
def test_wrong_usage_ends_with_exit_code_2(folder, monkeypatch, capsys, args, message):
    monkeypatch.chdir(folder)
    try:
        code = main(["data", *args])
    except SystemExit as exit_:
        code = exit_.code
    assert code == 2 and message in capsys.readouterr().err
