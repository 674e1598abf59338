"""A library with a CLIP: index, search, similar, explain and HTTP; evaluate and encode with it."""

import json
import shutil
from pathlib import Path

import numpy as np
import pytest
from fastapi.testclient import TestClient
from photos.library_support import make_images
from photos.serve.server_support import LOCALHOST
from PIL import Image
from tiny_dual_encoders import CAPTIONS, save_dual_encoder

import diverset
from diverset.cli import main
from diverset.evaluation.options import EvalOptions
from diverset.evaluation.run import evaluate
from diverset.photos.library.library import Library
from diverset.photos.serve.app import create_app
from diverset.reproduce.scenes import ScenesOptions, write_scenes

pytestmark = [
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
    pytest.mark.filterwarnings("ignore::UserWarning"),
]
IMAGES = 6


@pytest.fixture(scope="module")
def clip(tmp_path_factory) -> Path:
    return save_dual_encoder(tmp_path_factory.mktemp("models") / "clip")


@pytest.fixture
def photos(tmp_path) -> Path:
    return make_images(tmp_path / "photos", IMAGES)


@pytest.fixture
def library(clip, photos, tmp_path) -> str:
    """Indexed by the command line, with the whole image and four crops."""
    folder = str(tmp_path / "library")
    model = f"{clip}?crops=5"
    args = ["index", str(photos), "--model", model, "--library", folder]
    assert main([*args, "--workers", "3", "--batch", "2"]) == 0
    return folder


def search(capsys, *args: str) -> list[dict]:
    capsys.readouterr()
    assert main([*args, "--json"]) == 0
    return json.loads(capsys.readouterr().out)["groups"][0]


def test_search_ranks_by_the_similarity_of_the_model(library, clip, photos, capsys):
    hits = search(capsys, "search", "a red boat", "-n", str(IMAGES), "--library", library)
    model = diverset.load(f"{clip}?crops=5")
    files = sorted(photos.iterdir())
    scores = model.similarity(model.encode_images(files), model.encode_texts("a red boat"))[:, 0]
    expected = {str(file): float(score) for file, score in zip(files, scores, strict=True)}
    found = {hit["id"]: hit["score"] for hit in hits}
    assert found == pytest.approx(expected, abs=5e-3)  # a library encodes in bfloat16
    assert all(len(hit["shares"]) == 5 and hit["probability"] is None for hit in hits)


def test_similar_searches_by_one_crop(library, photos, capsys):
    args = ["similar", str(photos / "3.png"), "--element", "2", "-n", "2", "--library", library]
    assert len(search(capsys, *args)) == 2


def test_a_second_index_needs_no_model_option(library, photos, capsys):
    make_images(photos / "more", 2)
    Image.new("RGB", (50, 40), "green").save(photos / "green.png")
    assert main(["index", "--all", "--library", library]) == 0
    with Library.open(library) as opened:
        assert opened.images.count() == IMAGES + 3
        assert opened.info["model"].endswith("?crops=5")


def test_another_number_of_crops_is_another_model(library, clip, photos, capsys):
    args = ["index", str(photos), "--model", str(clip), "--library", library]
    assert main(args) != 0
    assert "--rebuild" in capsys.readouterr().err
    assert main([*args, "--rebuild"]) == 0
    with Library.open(library) as opened:
        assert opened.images.sample(1).shape[1] == 1


def test_explain_draws_the_crops(library, photos, tmp_path, capsys):
    out = tmp_path / "explained.png"
    args = ["explain", "a red boat", str(photos / "1.png"), "--out", str(out)]
    assert main([*args, "--library", library]) == 0
    assert capsys.readouterr().out.count("element") == 5
    assert Image.open(out).width > 5 * 280


def test_server_answers_searches_and_draws_crops(library, photos):
    with Library.open(library) as opened, TestClient(create_app(opened), LOCALHOST) as client:
        answer = client.post("/search", json={"text": "a dog", "k": 3})
        assert answer.status_code == 200, answer.text
        hit = answer.json()["groups"][0][0]
        assert 1 <= hit["element"] <= 5
        params = {"id": str(photos / "2.png"), "element": 2}
        overlay = client.get("/items/overlay", params=params)
        assert overlay.status_code == 200, overlay.text
    (file := photos.parent / "overlay.png").write_bytes(overlay.content)
    opacity = np.array(Image.open(file).convert("RGBA"))[..., 3]
    height, width = opacity.shape
    assert opacity[0, 0] > 0 and opacity[height - 1].max() == 0 and opacity[:, width - 1].max() == 0


def test_calibrated_probabilities_are_for_one_number_of_crops(clip, photos, tmp_path, capsys):
    model = str(shutil.copytree(clip, tmp_path / "clip"))
    scenes, library = str(tmp_path / "scenes"), str(tmp_path / "library")
    write_scenes(Path(scenes), train=20, val=60, test=1, options=ScenesOptions(size=32))
    assert main(["calibrate", f"{model}?crops=5", "--data", scenes, "--split", "val"]) == 0
    for spec, rated in ((f"{model}?crops=5", True), (model, False)):
        args = ["index", str(photos), "--model", spec, "--rebuild", "--library", library]
        assert main(args) == 0
        hits = search(capsys, "search", "a dog", "--library", library)
        assert all((hit["probability"] is not None) == rated for hit in hits)


def test_evaluate_reads_cached_features_the_second_time(clip, tmp_path, monkeypatch):
    scenes = tmp_path / "scenes"
    write_scenes(scenes, train=4, val=IMAGES, test=4, options=ScenesOptions(size=48))
    options = EvalOptions(
        root=str(scenes), format="karpathy", file="dataset_scenes.json", images="images"
    )
    model = f"{clip}?crops=5&prompt={{}}&prompt=a photo of {{}}"
    first = evaluate(model, options, cache=tmp_path / "cache")
    kept = {file: file.stat().st_mtime_ns for file in (tmp_path / "cache").rglob("*")}
    assert len([folder for folder in (tmp_path / "cache").iterdir() if folder.is_dir()]) == 2
    again = evaluate(model, options, cache=tmp_path / "cache")
    assert {file: file.stat().st_mtime_ns for file in (tmp_path / "cache").rglob("*")} == kept
    assert (first.rsum, first.n_images) == (again.rsum, IMAGES)


def test_encode_writes_the_sets_of_texts(clip, tmp_path):
    table = tmp_path / "texts.csv"
    table.write_text("\n".join(["text", *CAPTIONS]) + "\n")
    model = f"{clip}?prompt=a photo of {{}}"
    assert main(["encode", model, str(tmp_path / "shards"), "--texts", str(table)]) == 0
    sets = np.load(tmp_path / "shards" / "00000000.npy")
    expected = diverset.load(model).encode_texts(list(CAPTIONS)).numpy()
    np.testing.assert_allclose(sets, expected, atol=1e-5)
