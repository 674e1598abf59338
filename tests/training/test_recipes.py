"""Every recipe runs: two steps and an evaluation on tiny data of its own format.

Widths are cut down, and networks that would have to be fetched are replaced by tiny random ones
of the same kind, stored on disk; formats, losses, schedules and set modules are the recipe's own.
"""

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
import yaml

from diverset.config import from_dict, to_dict
from diverset.data.scenes import ScenesOptions, write_scenes
from diverset.demo import scenes_recipe
from diverset.training.command import train
from diverset.training.evaluating import Asked, evaluate
from diverset.training.run import read_recipe

RECIPES = sorted((Path(__file__).parents[2] / "recipes").glob("*.yaml"))
IMAGES = 6


@pytest.fixture(scope="module")
def networks(tmp_path_factory):
    """A tiny random ResNet and a tiny random BERT with its tokenizer."""
    transformers = pytest.importorskip("transformers")
    folder = tmp_path_factory.mktemp("networks")
    resnet = transformers.ResNetConfig(
        embedding_size=8, hidden_sizes=[8, 8, 8, 16], depths=[1, 1, 1, 1], layer_type="basic"
    )
    transformers.ResNetModel(resnet).save_pretrained(folder / "resnet")
    words = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "a", "the", "red", "dog", "cat", "house"]
    (folder / "bert").mkdir()
    (folder / "bert" / "vocab.txt").write_text("\n".join(words))
    transformers.BertTokenizer(str(folder / "bert" / "vocab.txt")).save_pretrained(folder / "bert")
    bert = transformers.BertConfig(
        vocab_size=len(words), hidden_size=16, num_hidden_layers=1, num_attention_heads=2,
        intermediate_size=16,
    )  # fmt: skip
    transformers.BertModel(bert).save_pretrained(folder / "bert")
    return folder


@pytest.fixture(scope="module")
def pictures(tmp_path_factory):
    """Drawn pictures under all names that Karpathy files have."""
    folder = tmp_path_factory.mktemp("pictures")
    write_scenes(folder, train=IMAGES, val=IMAGES, test=IMAGES, options=ScenesOptions(size=48))
    content = json.loads((folder / "dataset_scenes.json").read_text())
    for name in ("coco", "flickr30k", "flickr8k"):
        if name == "coco":
            content["images"][0]["split"] = "restval"
        (folder / f"dataset_{name}.json").write_text(json.dumps(content))
    _glove(folder)
    return folder


@pytest.fixture(scope="module")
def precomp(tmp_path_factory):
    folder = tmp_path_factory.mktemp("precomp")
    rng = np.random.default_rng(0)
    for split in ("train", "dev", "test", "testall"):
        regions = rng.standard_normal((IMAGES, 5, 2048), dtype=np.float32)
        np.save(folder / f"{split}_ims.npy", regions)
        captions = [f"a dog number {n} by the red house\n" for n in range(5 * IMAGES)]
        (folder / f"{split}_caps.txt").write_text("".join(captions))
    _glove(folder)
    return folder


def _glove(folder):
    vectors = np.random.default_rng(0).standard_normal((3, 300)).round(3)
    lines = [
        f"{w} {' '.join(map(str, v))}" for w, v in zip(("a", "red", "dog"), vectors, strict=True)
    ]
    (folder / "glove.840B.300d.txt").write_text("\n".join(lines) + "\n")


def small(recipe, root, networks):
    """The same recipe with narrow layers and without anything to download."""
    plain = to_dict(recipe)
    model, image, text = plain["model"], plain["model"]["image"], plain["model"]["text"]
    model["dim"] = 16
    for sets in (model["image_set"], model["text_set"]):
        sets["inner_width"] = 16
    if image["backbone"].startswith(("transformers:", "timm:")):
        image |= {"backbone": f"transformers:{networks / 'resnet'}", "backbone_size": 48}
        image["input_width"] = 16
    elif image["backbone"] and image["backbone"] != "small_cnn":
        image |= {"backbone_size": 64}
    if text["backbone"].startswith("transformers:"):
        text |= {"backbone": f"transformers:{networks / 'bert'}", "input_width": 16}
    plain["data"] |= {"root": str(root), "min_count": 1}
    plain["train"] |= {
        "epochs": 1, "batch_size": 3, "workers": 0, "precision": "32-true", "frozen_epochs": 0,
    }  # fmt: skip
    return from_dict(type(recipe), plain)


@pytest.mark.slow
@pytest.mark.parametrize("file", RECIPES, ids=lambda file: file.stem)
def test_recipe_trains_and_evaluates(file, tmp_path, networks, pictures, precomp):
    recipe = read_recipe(file)
    assert recipe.about
    root = precomp if recipe.data.format == "precomp" else pictures
    recipe = small(recipe, root, networks)
    torch.manual_seed(0)
    train(recipe, tmp_path / "run", tmp_path / "cache", "cpu")
    steps = [json.loads(line) for line in (tmp_path / "run" / "log.jsonl").read_text().splitlines()]
    assert steps[-1]["step"] == 2
    asked = Asked(split=recipe.data.test)
    report = evaluate([str(tmp_path / "run")], asked, cache=tmp_path / "cache")
    assert report.n_images == IMAGES and 0 <= report.rsum <= 600


def test_the_demo_is_the_scenes_recipe():
    file = next(one for one in RECIPES if one.stem == "scenes")
    assert read_recipe(file) == scenes_recipe()


def test_recipes_survive_a_round_trip():
    for file in RECIPES:
        recipe = read_recipe(file)
        again = from_dict(type(recipe), yaml.safe_load(yaml.safe_dump(to_dict(recipe))))
        assert again == recipe
        assert replace(recipe, about="") != recipe
