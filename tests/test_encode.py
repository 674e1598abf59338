"""`diverset encode`, with a model that nobody trained: pictures, texts, splits, ranks, resuming."""

import json

import numpy as np
import pytest
from PIL import Image

from diverset import ImageConfig, Model, ModelConfig, SetConfig, TextConfig, Vocabulary
from diverset.cli import main
from diverset.data.images import open_picture
from diverset.data.scenes import ScenesOptions, write_scenes
from diverset.errors import OptionError
from diverset.index.shards import check_complete, read_about, read_shard
from diverset.training.settings import DataConfig, Recipe

WORDS = ["a dog runs", "a cat sleeps", "two birds on a tree", "a red boat"]


def make_model(texts=WORDS) -> Model:
    image_set = SetConfig(size=2, inner_width=8, iterations=2)
    return Model(
        ModelConfig(
            dim=8,
            image=ImageConfig(
                kind="convolution",
                backbone="small_cnn",
                backbone_size=32,
                trained_blocks=-1,
                input_width=256,
            ),
            text=TextConfig(input_width=8),
            image_set=image_set,
            text_set=SetConfig(size=3, inner_width=8, iterations=2),
        ),
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
    assert parts[0].metadata[1] == {"text": "a cat sleeps", "year": "201"}
    np.testing.assert_allclose(parts[1].sets, model.encode_texts(WORDS[3:]).numpy(), atol=1e-5)
    (tmp_path / "t.csv").write_text("id,text,year\nother,a dog,1\n")
    assert main(given) == 2
    assert "was begun with" in capsys.readouterr().err


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

    from diverset.encode import settings_of

    model = make_model()
    assert settings_of(model, 2).alpha == 16
    model.architecture = replace(
        model.architecture, similarity=replace(model.architecture.similarity, kind="mil")
    )
    with pytest.raises(OptionError, match="choose one of: smooth_chamfer"):
        settings_of(model, 2)
    assert json.dumps(settings_of(make_model(), 3).slots) == "3"
