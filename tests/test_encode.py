"""`diverset encode`, with a model that nobody trained: pictures, texts, splits, ranks, resuming."""

import datetime
import json
import os

import numpy as np
import pytest
from PIL import Image
from tiny_networks import small_cnn

from diverset import Model, Vocabulary
from diverset.cli import main
from diverset.data.images import open_picture
from diverset.data.scenes import ScenesOptions, write_scenes
from diverset.errors import OptionError
from diverset.index.shards import check_complete, read_about, read_shard
from diverset.training.settings import DataConfig, Recipe

WORDS = ["a dog runs", "a cat sleeps", "two birds on a tree", "a red boat"]


def make_model(texts=WORDS) -> Model:
    return Model(
        small_cnn(image_size=2, text_size=3),
        Vocabulary.build(texts, min_count=1),
    )


@pytest.fixture
def model(tmp_path):
    made = make_model()
    made.save_pretrained(tmp_path / "model")
    return made


def items(folder):
    about = read_about(folder)
    check_complete(folder, about)
    return about, [read_shard(folder, about, number) for number in about.numbers]


def test_pictures_of_a_folder_by_two_processes(model, tmp_path, caplog):
    pictures = tmp_path / "pictures"
    (pictures / "deep").mkdir(parents=True)
    chance = np.random.default_rng(0)
    names = ["a.png", "b.png", "deep/c.PNG", "deep/d.png"]
    for name in names:
        Image.fromarray(chance.integers(0, 255, (40, 50, 3), dtype=np.uint8)).save(pictures / name)
    (pictures / "broken.jpg").write_bytes(b"no picture")
    (pictures / "notes.txt").write_text("no picture either")
    out = tmp_path / "shards"
    common = ["encode", str(tmp_path / "model"), str(out), "--pictures", str(pictures)]
    common += ["--shard-size", "2", "--world", "2"]
    assert main([*common, "--rank", "1"]) == 0
    assert (out / "00000001.npy").exists() and not (out / "00000000.npy").exists()
    assert main([*common, "--rank", "0"]) == 0
    about, parts = items(out)
    assert (about.items, about.settings.model) == (5, model.fingerprint())
    assert [one for part in parts for one in part.ids] == names
    assert "broken.jpg" in caplog.text and "left out" in caplog.text
    wanted = model.encode_images([open_picture(pictures / name, at_least=32) for name in names])
    found = np.concatenate([part.sets for part in parts])
    np.testing.assert_allclose(found, wanted.numpy(), atol=1e-5)
    assert parts[0].metadata[0] == {"picture": str(pictures / "a.png")}


def test_finished_shards_are_left_alone(model, tmp_path, capsys):
    (tmp_path / "t.csv").write_text("id,text,year\n" + "\n".join(
        f"{place},{text},20{place}" for place, text in enumerate(WORDS)
    ))  # fmt: skip
    out = tmp_path / "shards"
    given = ["encode", str(tmp_path / "model"), str(out), "--texts", str(tmp_path / "t.csv")]
    given += ["--metadata", "year", "--shard-size", "3"]
    assert main(given) == 0
    assert "shard 1 of 2: 1 items" in capsys.readouterr().err
    (out / "00000001.parquet").unlink()  # as if stopped in the middle of the second
    before = (out / "00000000.npy").stat().st_mtime_ns
    assert main(given) == 0
    assert "1 of its 2 shards written" in capsys.readouterr().err
    assert (out / "00000000.npy").stat().st_mtime_ns == before
    about, parts = items(out)
    assert about.settings.slots == 3
    assert parts[0].metadata[1] == {"text": "a cat sleeps", "year": 201}
    np.testing.assert_allclose(parts[1].sets, model.encode_texts(WORDS[3:]).numpy(), atol=1e-5)
    (tmp_path / "t.csv").write_text("id,text,year\nother,a dog,1\n")
    assert main(given) == 2
    assert "was begun with" in capsys.readouterr().err


def test_a_folder_is_not_gone_on_with_for_other_texts_or_metadata(model, tmp_path, capsys):
    table, out = tmp_path / "t.csv", str(tmp_path / "shards")
    rows = "id,text,a,b\n1,a dog runs,x,y\n2,a cat sleeps,x,y\n"
    given = ["encode", str(tmp_path / "model"), out, "--texts", str(table), "--shard-size", "1"]
    table.write_text(rows)
    assert main([*given, "--metadata", "a"]) == 0
    assert main([*given, "--metadata", "a"]) == 0
    for content, column, words in (
        (rows.replace("dog", "bird"), "a", "was begun with digest"),
        (rows.replace(",x,", ",z,"), "a", "was begun with digest"),
        (rows, "b", "was begun with"),
    ):
        table.write_text(content)
        capsys.readouterr()
        assert main([*given, "--metadata", column]) == 2
        assert words in capsys.readouterr().err
    assert read_about(tmp_path / "shards").columns == ("a",)


def test_what_is_encoded_is_taken_in_by_an_index(model, tmp_path):
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
        "text": WORDS[:3],
        "score": [1.0, float("nan"), None],
        "day": [day] * 3,
        "at": [datetime.datetime(2020, 1, 31, 12)] * 3,
        "good": [True, False, None],
    }
    parquet.write_table(arrow.table(columns), tmp_path / "t.parquet")
    stored = {}
    for ending, kept in (
        ("csv", ["year", "price", "code", "post", "word"]),
        ("parquet", ["score", "day", "at", "good"]),
    ):
        shards, index = str(tmp_path / f"{ending}.shards"), str(tmp_path / f"{ending}.index")
        given = [str(tmp_path / "model"), shards, "--texts", str(tmp_path / f"t.{ending}")]
        assert main(["encode", *given, "--metadata", *kept]) == 0
        assert main(["index", "add-shards", index, shards]) == 0
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
        "text": WORDS[1], "score": None, "day": "2020-01-31", "at": "2020-01-31T12:00:00",
        "good": False,
    }  # fmt: skip


def test_what_no_index_takes_in_is_refused_before_encoding(model, tmp_path, capsys, monkeypatch):
    import pyarrow as arrow
    from pyarrow import parquet

    monkeypatch.setattr(Model, "encode_texts", None)  # never asked
    columns = {
        "id": ["a", "b"],
        "text": WORDS[:2],
        "author name": ["x", "y"],
        "tags": [["x"], ["y"]],
        "far": [1.0, float("inf")],
        "none": [None, "b"],
        "nul": ["a\0", "b"],
    }
    parquet.write_table(arrow.table(columns), tmp_path / "t.parquet")
    given = ["encode", str(tmp_path / "model"), str(tmp_path / "shards")]
    given += ["--texts", str(tmp_path / "t.parquet")]
    for rest, words in (
        (["--metadata", "author name"], "rename it with letters, digits and underscores"),
        (["--metadata", "tags"], "item 'a': metadata field 'tags' holds list"),
        (["--metadata", "far"], "item 'b': metadata field 'far' is inf; give a finite number"),
        (["--id-column", "none"], "row 0 of"),
        (["--id-column", "nul"], "with a NUL"),
    ):
        assert main([*given, *rest]) == 2
        assert words in capsys.readouterr().err
    assert not (tmp_path / "shards").exists()


def test_pictures_whose_names_are_not_utf8_are_left_out_and_named(model, tmp_path, caplog):
    pictures = tmp_path / "pictures"
    pictures.mkdir()
    for name in ("a.png", os.fsdecode(b"caf\xe9.png")):
        with open(pictures / name, "wb") as file:
            Image.new("RGB", (40, 40)).save(file, "PNG")
    given = [str(tmp_path / "model"), str(tmp_path / "shards"), "--pictures", str(pictures)]
    assert main(["encode", *given]) == 0
    assert [part.ids for part in items(tmp_path / "shards")[1]] == [["a.png"]]
    assert "caf" in caplog.text and "not UTF-8" in caplog.text


def test_a_split_of_a_run(tmp_path):
    import yaml

    from diverset.config import to_dict
    from diverset.data import read_karpathy

    scenes = tmp_path / "scenes"
    write_scenes(scenes, train=4, val=3, test=2, options=ScenesOptions(size=32))
    collection = read_karpathy(scenes / "dataset_scenes.json", scenes / "images", "val")
    model = make_model(collection.captions)
    data = DataConfig(root=str(scenes), file="dataset_scenes.json", images="images")
    run = tmp_path / "run"
    model.save_pretrained(run / "model")
    (run / "recipe.yaml").write_text(
        yaml.safe_dump(to_dict(Recipe(model=model.architecture, data=data)))
    )
    assert main(["encode", str(run), str(tmp_path / "i")]) == 0
    assert main(["encode", str(run), str(tmp_path / "c"), "--split", "val", "--captions"]) == 0
    images, captions = items(tmp_path / "i")[1][0], items(tmp_path / "c")[1][0]
    assert images.ids == list(collection.image_ids)
    assert [one["text"] for one in captions.metadata] == list(collection.captions)
    wanted = model.encode_texts(list(collection.captions)).numpy()
    np.testing.assert_allclose(captions.sets, wanted, atol=1e-5)


def test_what_cannot_be_encoded(model, tmp_path, capsys, monkeypatch):
    table = tmp_path / "t.csv"
    table.write_text("id,text\na,a dog\na,a cat\n")
    where, out = str(tmp_path / "model"), str(tmp_path / "shards")
    for given, words in (
        ([where, out], "a model without its data"),
        ([str(tmp_path), out], "give a run or a model"),
        ([where, out, "--pictures", str(tmp_path / "none")], "no pictures under"),
        ([where, out, "--texts", str(table)], "holds an id twice"),
        ([where, out, "--texts", str(table), "--text-column", "body"], "no column 'body'"),
        ([where, out, "--texts", str(table), "--pictures", "x"], "give one of"),
        ([where, out, "--texts", str(table), "--rank", "2", "--world", "2"], "the rank is 2"),
    ):
        assert main(["encode", *given]) == 2
        assert words in capsys.readouterr().err
    monkeypatch.setenv("RANK", "5")
    monkeypatch.setenv("WORLD_SIZE", "3")
    assert main(["encode", where, out, "--texts", str(table)]) == 2
    assert "the rank is 5 of 3" in capsys.readouterr().err


def test_models_whose_sets_no_index_compares(tmp_path):
    from dataclasses import replace

    from diverset.index import settings_of

    model = make_model()
    assert settings_of(model, 2).alpha == 16
    model.architecture = replace(
        model.architecture, similarity=replace(model.architecture.similarity, alpha=8.0)
    )
    assert settings_of(model, 2).alpha == 8
    model.architecture = replace(
        model.architecture, similarity=replace(model.architecture.similarity, kind="mil")
    )
    with pytest.raises(OptionError, match="choose one of: smooth_chamfer"):
        settings_of(model, 2)
    assert json.dumps(settings_of(make_model(), 3).slots) == "3"
