"""Every recipe runs: two steps and an evaluation on tiny data of its own format.

Layers are narrow, and backbones that would have to be downloaded are replaced by tiny random ones
of the same kind. Formats, losses, schedules and set modules are those of the recipe.
"""

import json
from dataclasses import asdict, replace
from pathlib import Path

import numpy as np
import pytest
import torch
import yaml
from tiny_dual_encoders import save_dual_encoder

from diverset.config import from_dict
from diverset.evaluation.options import EvalOptions
from diverset.evaluation.run import evaluate
from diverset.recipe.run_folder import read_recipe
from diverset.reproduce.scenes import ScenesOptions, write_scenes
from diverset.training.train import train

RECIPES = sorted((Path(__file__).parents[2] / "recipes").glob("*.yaml"))
IMAGES = 6


@pytest.fixture(scope="module")
def networks(tmp_path_factory):
    """A tiny random ResNet, BERT and CLIP, the latter two with their tokenizers."""
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
    save_dual_encoder(folder / "clip")
    return folder


@pytest.fixture(scope="module")
def karpathy(tmp_path_factory):
    """Drawn images with the names of all Karpathy files."""
    folder = tmp_path_factory.mktemp("karpathy")
    write_scenes(folder, train=IMAGES, val=IMAGES, test=IMAGES, options=ScenesOptions(size=48))
    content = json.loads((folder / "dataset_scenes.json").read_text())
    for name in ("coco", "flickr30k", "flickr8k"):
        if name == "coco":
            content["images"][0]["split"] = "restval"
            content["images"] = [image | {"labels": ["dog"]} for image in content["images"]]
        (folder / f"dataset_{name}.json").write_text(json.dumps(content))
        if name in ("coco", "flickr8k"):  # as sources of one training
            (folder / name).mkdir()
            (folder / name / f"dataset_{name}.json").write_text(json.dumps(content))
            (folder / name / "images").symlink_to(folder / "images")
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
    plain = asdict(recipe)
    model, image, text = plain["model"], plain["model"]["image"], plain["model"]["text"]
    model["dim"] = 16
    for sets in (model["image_set"], model["text_set"]):
        sets["inner_width"] = 16
    if (image["backbone"] or "").startswith(("transformers:", "timm:")):
        network = "clip" if "clip" in image["backbone"] else "resnet"
        image |= {"backbone": f"transformers:{networks / network}", "backbone_size": 48}
        image["input_width"] = 16
    elif image["backbone"] and image["backbone"] != "small_cnn":
        image |= {"backbone_size": 64}
    if (text["backbone"] or "").startswith("transformers:"):
        network = "clip" if "clip" in text["backbone"] else "bert"
        text |= {"backbone": f"transformers:{networks / network}", "input_width": 16}
    plain["data"] |= {"root": str(root), "min_count": 1}
    plain["train"] |= {
        "epochs": 1, "batch_size": 3, "workers": 0, "precision": "float32", "frozen_epochs": 0,
    }  # fmt: skip
    if recipe.data.sources:
        plain["train"]["batch_size"] = 6
    return from_dict(type(recipe), plain)


@pytest.mark.slow
@pytest.mark.parametrize("file", RECIPES, ids=lambda file: file.stem)
def test_recipe_trains_and_evaluates(file, tmp_path, networks, karpathy, precomp):
    recipe = read_recipe(file)
    assert recipe.about
    root = precomp if recipe.data.format == "precomp" else karpathy
    recipe = small(recipe, root, networks)
    torch.manual_seed(0)
    train(recipe, tmp_path / "run", tmp_path / "cache", "cpu")
    steps = [json.loads(line) for line in (tmp_path / "run" / "log.jsonl").read_text().splitlines()]
    drawn_twice = any(source.weight == 2 for source in recipe.data.sources)
    assert steps[-1]["step"] == (3 if drawn_twice else 2)
    sources = recipe.data.sources
    split = f"{sources[0].name}:{sources[0].test}" if sources else recipe.data.test
    options = EvalOptions(split=split)
    report = evaluate([str(tmp_path / "run")], options, cache=tmp_path / "cache")
    assert report.n_images == IMAGES and 0 <= report.rsum <= 600


def test_recipes_survive_a_round_trip():
    for file in RECIPES:
        recipe = read_recipe(file)
        again = from_dict(type(recipe), yaml.safe_load(yaml.safe_dump(asdict(recipe))))
        assert again == recipe
        assert replace(recipe, about="") != recipe
