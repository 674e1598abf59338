"""Trainings that start from the weights of an existing model."""

import json
from dataclasses import replace

import pytest
import torch
from tiny_networks import scenes_recipe, small_cnn

from diverset import Model, Vocabulary, load
from diverset.errors import CheckpointError
from diverset.recipe.run_folder import read_recipe
from diverset.reproduce.scenes import ScenesOptions, write_scenes
from diverset.training.export import export
from diverset.training.initial_model import load_weights
from diverset.training.train import train

pytestmark = pytest.mark.filterwarnings("ignore::UserWarning:lightning_fabric")


@pytest.fixture(scope="module")
def scenes(tmp_path_factory):
    folder = tmp_path_factory.mktemp("scenes")
    write_scenes(folder, train=8, val=4, test=4, options=ScenesOptions(size=32))
    return folder


@pytest.fixture(scope="module")
def first(scenes, tmp_path_factory):
    """A finished run."""
    folder = tmp_path_factory.mktemp("runs") / "first"
    train(scenes_recipe(scenes), folder, folder.parent, "cpu")
    return folder


def test_training_starts_from_the_weights_and_words_of_a_run(scenes, first, tmp_path):
    """At a learning rate of nearly 0 the new run has the validation RSUM of the first."""
    recipe = scenes_recipe(scenes, initial_model=str(first))
    recipe = replace(
        recipe,
        optim=replace(recipe.optim, lr=1e-30, weight_decay=0.0),
        data=replace(recipe.data, min_count=100),  # would leave no words in a new vocabulary
        train=replace(recipe.train, fixed_batch_norm=True),
    )
    train(recipe, tmp_path / "second", tmp_path, "cpu")
    before, after = load(first), load(tmp_path / "second")
    assert len(after.vocabulary) == len(before.vocabulary) > 4
    for name, tensor in before.state_dict().items():
        torch.testing.assert_close(after.state_dict()[name], tensor, msg=name)
    runs = (first, tmp_path / "second")
    results = [json.loads((run / "result.json").read_text()) for run in runs]
    assert results[0]["rsum"] == results[1]["rsum"]
    export(str(tmp_path / "second"), tmp_path / "exported")
    assert read_recipe(tmp_path / "exported" / "recipe.yaml").train.initial_model is None


def test_one_slot_grows_into_several(scenes, tmp_path):
    config = scenes_recipe(scenes).model
    single = replace(
        config,
        image_set=replace(config.image_set, size=1),
        text_set=replace(config.text_set, size=1),
    )
    small = Model(single, Vocabulary.build(["a red dog"], 1))
    small.save_pretrained(tmp_path)
    torch.manual_seed(0)
    grown = load_weights(config, str(tmp_path))
    before, after = small.state_dict(), grown.state_dict()
    slots = [f"{side}_encoder.sets.slots" for side in ("image", "text")]
    for name, tensor in before.items():
        if name not in slots:
            torch.testing.assert_close(after[name], tensor, msg=name)
    for name in slots:
        noise = after[name] - before[name]
        assert noise.shape == (2, 8) and 0.4 < noise.std() < 1.6 and len(noise.unique()) == 16
    grown.save_pretrained(tmp_path / "grown")
    with pytest.raises(CheckpointError, match=r"image_set\.size is 1, .* has 2"):
        load_weights(single, str(tmp_path / "grown"))


def test_the_first_option_that_differs_is_named(first):
    wider = replace(small_cnn(), dim=16)
    with pytest.raises(CheckpointError, match=r"model\.dim is 16, .* has 8; give --model\.dim 8"):
        load_weights(wider, str(first))
    with pytest.raises(CheckpointError, match=r"model\.image_set\.size is 3, .* has 2"):
        load_weights(small_cnn(image_size=3), str(first))
    unpooled = replace(small_cnn(), image=replace(small_cnn().image, pooling="max"))
    with pytest.raises(CheckpointError, match=r"give --model\.image\.pooling null"):
        load_weights(unpooled, str(first))


def test_dropout_and_alpha_may_differ(first):
    config = small_cnn()
    config = replace(
        config,
        image_set=replace(config.image_set, dropout=0.5),
        similarity=replace(config.similarity, alpha=8.0),
    )
    model = load_weights(config, str(first))
    assert model.config == config and model.training


def test_a_path_that_is_no_model_leaves_no_run_folder(scenes, tmp_path):
    with pytest.raises(CheckpointError, match="nowhere is not the folder of a run or a model"):
        recipe = scenes_recipe(scenes, initial_model=str(tmp_path / "nowhere"))
        train(recipe, tmp_path / "run", tmp_path, "cpu")
    assert not (tmp_path / "run").exists()


def test_a_frozen_backbone_with_other_weights_is_rejected(tmp_path):
    config = small_cnn()
    config = replace(config, image=replace(config.image, trainable_blocks=0))
    model = Model(config, Vocabulary.build(["a dog"], 1))
    model.save_pretrained(tmp_path / "model")
    content = json.loads((tmp_path / "model" / "config.json").read_text())
    content["frozen_backbones"]["image"] = "0" * 16
    (tmp_path / "model" / "config.json").write_text(json.dumps(content))
    with pytest.raises(CheckpointError, match="trained with the image backbone 0{16}"):
        load_weights(config, str(tmp_path / "model"))
    resized = replace(config, image=replace(config.image, backbone_size=64))
    load_weights(resized, str(tmp_path / "model"))
