"""Training blocks over cached features: whole runs, resumed, in bfloat16, evaluated."""

import json
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from tiny_networks import over_bert, save_bert, split_lite0, train_until

from diverset import Model
from diverset.evaluation.run import evaluate
from diverset.recipe.config import DataConfig, LossConfig, Recipe, TrainConfig
from diverset.recipe.encode import encode_split
from diverset.recipe.splits import open_split
from diverset.reproduce.scenes import ScenesOptions, write_scenes
from diverset.training.checkpoint import latest_checkpoint
from diverset.training.train import train

pytestmark = pytest.mark.filterwarnings("ignore::UserWarning:lightning_fabric")


@pytest.fixture(scope="module")
def recipe(tmp_path_factory) -> Recipe:
    folder = tmp_path_factory.mktemp("scenes")
    write_scenes(folder, train=10, val=4, test=4, options=ScenesOptions(size=32))
    torch.manual_seed(0)
    return Recipe(
        model=over_bert(
            save_bert(folder / "bert"),
            split_lite0(),
            trainable_blocks=2,
            cache_frozen_features=True,
        ),
        data=DataConfig(
            root=str(folder),
            file="dataset_scenes.json",
            images="images",
            views=2,
            crop_scale=0.6,
            drop_inputs=0.3,
            drop_words=0.2,
        ),
        loss=LossConfig(kind="contrastive"),
        train=TrainConfig(epochs=2, batch_size=4, average=0.9, checkpoint_minutes=0.0),
    )


def weights(run: Path) -> dict[str, torch.Tensor]:
    return latest_checkpoint(run / "checkpoints")["model"]


@pytest.mark.slow
def test_a_run_over_cached_features_resumes_with_identical_weights(recipe, tmp_path):
    train(recipe, tmp_path / "whole", tmp_path / "cache", "cpu")
    stored = weights(tmp_path / "whole")
    assert any(name.startswith("text_encoder.backbone.blocks.1") for name in stored)
    assert not any("embeddings" in name or "stem" in name for name in stored)
    start = Model(recipe.model).state_dict()
    for side in ("text_encoder", "image_encoder"):
        moved = [
            not torch.equal(stored[name], start[name])
            for name in stored
            if name.startswith(f"{side}.backbone") and name.endswith("weight")
        ]
        assert all(moved), side

    train_until(recipe, tmp_path / "resumed", tmp_path / "cache", epoch=2, batch=1)
    train(recipe, tmp_path / "resumed", tmp_path / "cache", "cpu")
    resumed = weights(tmp_path / "resumed")
    assert all(torch.equal(resumed[name], tensor) for name, tensor in stored.items())
    result = json.loads((tmp_path / "whole" / "result.json").read_text())
    report = evaluate([str(tmp_path / "whole")], cache=tmp_path / "cache")
    assert report.rsum == pytest.approx(result["rsum"])


@pytest.mark.slow
def test_trainable_blocks_can_be_trained_in_bfloat16(recipe, tmp_path):
    short = replace(recipe, train=replace(recipe.train, precision="bfloat16", epochs=1))
    train(short, tmp_path / "run", tmp_path / "cache", "cpu")
    assert all(tensor.isfinite().all() for tensor in weights(tmp_path / "run").values())


def test_masked_cells_belong_to_the_last_map(recipe, tmp_path):
    deep = replace(recipe.model, image=replace(recipe.model.image, trainable_blocks=7))
    split = open_split(recipe.data, "val", Model(deep), tmp_path / "cache")
    import numpy as np

    batch = split.images.batch([0, 1], np.random.default_rng(0))
    assert batch.values.shape == (2, 112, 4, 4) and batch.mask.shape == (2, 4)
    assert Model(deep).image_encoder(batch).elements.shape == (2, 2, 8)


def test_evaluated_captions_are_cached_in_float32(recipe, tmp_path):
    model = Model(recipe.model).eval()

    def opened(split):
        return open_split(recipe.data, split, model, tmp_path)

    val, trained = opened(recipe.data.val), opened(recipe.data.train)
    found = encode_split(model, val)[1]
    wanted = model.encode_texts(list(val.dataset.captions))
    assert float((found - wanted).abs().max()) < 1e-6
    assert trained.texts.tokens.header["storage"] == "float16"  # the large part stays small


def test_joined_splits_use_the_caches_of_their_parts(recipe, tmp_path):
    def opened(split):
        return open_split(recipe.data, split, Model(recipe.model), tmp_path, training=True)

    apart = {name: opened(name) for name in ("train", "val")}
    before = {folder.name for folder in tmp_path.glob("images-*")}
    assert len(before) == 4  # two splits with two views
    both = opened("val+train")  # the dataset itself has train first
    assert {folder.name for folder in tmp_path.glob("images-*")} == before
    assert len(both.images) == 14 == len(both.dataset)
    for split in apart.values():
        rows = [both.dataset.image_paths.index(path) for path in split.dataset.image_paths]
        maps = split.images.batch(range(len(rows))).values
        assert torch.equal(both.images.batch(rows).values, maps)
