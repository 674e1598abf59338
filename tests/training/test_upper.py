"""Training upper blocks over cached states: whole runs, resumed, in bfloat16, evaluated."""

import json
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from tiny_networks import cut_lite0, over_bert, save_bert

from diverset import Model
from diverset.data.scenes import ScenesOptions, write_scenes
from diverset.training import loop
from diverset.training.checkpoint import latest_checkpoint
from diverset.training.command import train
from diverset.training.encoding import encode_split
from diverset.training.evaluating import evaluate
from diverset.training.opening import open_split
from diverset.training.settings import DataConfig, LossConfig, Recipe, TrainConfig

pytestmark = pytest.mark.filterwarnings("ignore::UserWarning:lightning_fabric")


@pytest.fixture(scope="module")
def asked(tmp_path_factory) -> Recipe:
    folder = tmp_path_factory.mktemp("scenes")
    write_scenes(folder, train=10, val=4, test=4, options=ScenesOptions(size=32))
    torch.manual_seed(0)
    return Recipe(
        model=over_bert(
            save_bert(folder / "bert"), cut_lite0(), trained_blocks=2, cache_below=True
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
        train=TrainConfig(epochs=2, batch_size=4, average=0.9),
    )


def weights(run: Path) -> dict[str, torch.Tensor]:
    return latest_checkpoint(run / "checkpoints")["model"]


@pytest.mark.slow
def test_a_run_above_cached_states_resumes_and_can_be_used(asked, tmp_path, monkeypatch):
    train(asked, tmp_path / "whole", tmp_path / "cache", "cpu")
    stored = weights(tmp_path / "whole")
    assert any(name.startswith("text_encoder.backbone.blocks.1") for name in stored)
    assert not any("embeddings" in name or "stem" in name for name in stored)
    start = Model(asked.model).state_dict()
    for side in ("text_encoder", "image_encoder"):
        moved = [
            not torch.equal(stored[name], start[name])
            for name in stored
            if name.startswith(f"{side}.backbone") and name.endswith("weight")
        ]
        assert all(moved), side

    class Stop(Exception):
        pass

    original, calls = loop._Run._step, []

    def stopping(self, batch):
        calls.append(1)
        if len(calls) == 4:
            self._save()
            raise Stop
        return original(self, batch)

    with monkeypatch.context() as patch:
        patch.setattr(loop._Run, "_step", stopping)
        with pytest.raises(Stop):
            train(asked, tmp_path / "parts", tmp_path / "cache", "cpu")
    train(asked, tmp_path / "parts", tmp_path / "cache", "cpu")
    again = weights(tmp_path / "parts")
    assert all(torch.equal(again[name], tensor) for name, tensor in stored.items())
    result = json.loads((tmp_path / "whole" / "result.json").read_text())
    report = evaluate([str(tmp_path / "whole")], cache=tmp_path / "cache")
    assert report.rsum == pytest.approx(result["rsum"])


@pytest.mark.slow
def test_bfloat16_trains_upper_blocks(asked, tmp_path):
    chosen = replace(asked, train=replace(asked.train, precision="bf16-mixed", epochs=1))
    train(chosen, tmp_path / "run", tmp_path / "cache", "cpu")
    assert all(tensor.isfinite().all() for tensor in weights(tmp_path / "run").values())


def test_hidden_cells_are_those_of_the_last_map(asked, tmp_path):
    deep = replace(asked.model, image=replace(asked.model.image, trained_blocks=7))
    split = open_split(asked.data, "val", deep, None, tmp_path / "cache")
    import numpy as np

    batch = split.images.batch([0, 1], np.random.default_rng(0))
    assert batch.values.shape == (2, 112, 4, 4) and batch.mask.shape == (2, 4)
    assert Model(deep).image_encoder(batch).elements.shape == (2, 2, 8)


def test_texts_are_evaluated_as_searches_encode_them(asked, tmp_path):
    model = Model(asked.model).eval()

    def opened(split):
        return open_split(asked.data, split, asked.model, None, tmp_path, model=model)

    val, trained = opened(asked.data.val), opened(asked.data.train)
    found = encode_split(model, val)[1]
    wanted = model.encode_texts(list(val.collection.captions))
    assert float((found - wanted).abs().max()) < 1e-6
    assert trained.texts.tokens.header["storage"] == "float16"  # the large part stays small


def test_joined_splits_use_what_each_has_in_the_cache(asked, tmp_path):
    def opened(split):
        return open_split(asked.data, split, asked.model, None, tmp_path, views=2)

    apart = {name: opened(name) for name in ("train", "val")}
    before = {one.name for one in tmp_path.glob("pictures-*")}
    both = opened("val+train")  # the collection itself has train first
    assert {one.name for one in tmp_path.glob("pictures-*")} == before
    assert len(both.images) == 14 == len(both.collection)
    for split in apart.values():
        at = [both.collection.pictures.index(file) for file in split.collection.pictures]
        some = list(range(len(at)))
        assert torch.equal(both.images.batch(at).values, split.images.batch(some).values)
