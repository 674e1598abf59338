"""Whole runs on a few drawn pictures: resume, kill, NaN, several processes."""

import json
import os
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from tiny_networks import small_cnn

from diverset import Model
from diverset.data.scenes import ScenesOptions, write_scenes
from diverset.errors import CheckpointError
from diverset.training.checkpoint import latest_checkpoint
from diverset.training.command import parse_recipe, train
from diverset.training.evaluating import Asked, evaluate, open_run
from diverset.training.loop import NotFiniteError
from diverset.training.settings import DataConfig, LossConfig, OptimConfig, Recipe, TrainConfig

pytestmark = pytest.mark.filterwarnings("ignore::UserWarning:lightning_fabric")


@pytest.fixture(scope="module")
def scenes(tmp_path_factory):
    folder = tmp_path_factory.mktemp("scenes")
    write_scenes(folder, train=12, val=6, test=6, options=ScenesOptions(size=32))
    return folder


def recipe(scenes: Path, **train_settings) -> Recipe:
    return Recipe(
        model=small_cnn(),
        data=DataConfig(
            root=str(scenes),
            file="dataset_scenes.json",
            images="images",
            min_count=1,
            drop_words=0.2,
            crop_scale=0.6,
        ),
        loss=LossConfig(start="contrastive", start_epochs=1),
        optim=OptimConfig(lr=1e-3),
        train=TrainConfig(**{"epochs": 3, "batch_size": 4, "average": 0.9} | train_settings),
    )


def weights(run: Path) -> dict[str, torch.Tensor]:
    return latest_checkpoint(run / "checkpoints")["model"]


def test_a_run_leaves_all_that_is_needed_to_repeat_and_to_use_it(scenes, tmp_path):
    train(recipe(scenes), tmp_path / "run", tmp_path / "cache", "cpu")
    run = tmp_path / "run"
    for name in ("recipe.yaml", "environment.json", "log.jsonl", "result.json", "tensorboard"):
        assert (run / name).exists(), name
    lines = [json.loads(line) for line in (run / "log.jsonl").read_text().splitlines()]
    assert [line["epoch"] for line in lines if "val" in line] == [1, 2, 3]
    model, data = open_run(str(run))
    assert data.root == str(scenes) and isinstance(model, Model)
    result = json.loads((run / "result.json").read_text())
    report = evaluate([str(run)], cache=tmp_path / "cache")
    assert report.rsum == pytest.approx(result["rsum"])
    assert report.n_images == 6 and report.n_captions == 30
    both = evaluate([str(run), str(run)], cache=tmp_path / "cache", asked=Asked(split="test"))
    alone = evaluate([str(run)], cache=tmp_path / "cache", asked=Asked(split="test"))
    assert both.rsum == pytest.approx(alone.rsum)
    asked = Asked(similarity="chamfer", image_elements=[1])
    single = evaluate([str(run)], asked, cache=tmp_path)
    assert single.n_images == 6


def test_a_stopped_run_ends_with_the_very_same_weights(scenes, tmp_path):
    whole, parts = tmp_path / "whole", tmp_path / "parts"
    asked = recipe(scenes)
    train(asked, whole, tmp_path, "cpu")

    class Stop(Exception):
        pass

    # Stopped in the second epoch, in the middle of its batches.
    from diverset.training import loop

    original, calls = loop._Run._step, []

    def stopping(self, batch):
        calls.append(1)
        if len(calls) == 5:
            self._save()
            raise Stop
        return original(self, batch)

    loop._Run._step = stopping
    try:
        with pytest.raises(Stop):
            train(asked, parts, tmp_path, "cpu")
    finally:
        loop._Run._step = original
    train(asked, parts, tmp_path, "cpu")
    for name, tensor in weights(whole).items():
        assert torch.equal(tensor, weights(parts)[name]), name
    results = [json.loads((run / "result.json").read_text()) for run in (whole, parts)]
    assert results[0]["history"] == results[1]["history"]


@pytest.mark.slow
def test_a_killed_run_goes_on(scenes, tmp_path):
    script = (
        "import sys; from pathlib import Path; from training.test_loop import recipe, train;"
        "scenes, out, cache = map(Path, sys.argv[1:]);"
        "train(recipe(scenes, epochs=6, checkpoint_minutes=0.0), out, cache, 'cpu')"
    )
    command = [sys.executable, "-c", script, str(scenes), str(tmp_path / "run"), str(tmp_path)]
    paths = [str(Path(__file__).parents[1]), os.environ.get("PYTHONPATH", "")]
    environment = os.environ | {"OMP_NUM_THREADS": "1", "PYTHONPATH": os.pathsep.join(paths)}
    for wanted in (1, 7):
        process = subprocess.Popen(command, env=environment, stderr=subprocess.DEVNULL)
        deadline = time.monotonic() + 120
        while time.monotonic() < deadline and process.poll() is None:
            found = sorted((tmp_path / "run" / "checkpoints").glob("step-*.pt"))
            if found and int(found[-1].name[5:13]) >= wanted:
                break
            time.sleep(0.01)
        process.send_signal(signal.SIGKILL)
        process.wait()
        assert found, "no checkpoint was written in time"
    asked = recipe(scenes, epochs=6, checkpoint_minutes=0.0)
    train(asked, tmp_path / "run", tmp_path, "cpu")
    train(asked, tmp_path / "whole", tmp_path, "cpu")
    for name, tensor in weights(tmp_path / "whole").items():
        assert torch.equal(tensor, weights(tmp_path / "run")[name]), name


def test_a_damaged_checkpoint_is_named_and_the_one_before_it_offered(scenes, tmp_path):
    train(recipe(scenes, epochs=2), tmp_path / "run", tmp_path, "cpu")
    stored = sorted((tmp_path / "run" / "checkpoints").glob("step-*.pt"))
    stored[-1].write_bytes(stored[-1].read_bytes()[:-10])
    with pytest.raises(CheckpointError, match=f"{stored[-1].name} is damaged.*{stored[-2].name}"):
        train(recipe(scenes, epochs=2), tmp_path / "run", tmp_path, "cpu")
    stored[-1].unlink()
    train(recipe(scenes, epochs=2), tmp_path / "run", tmp_path, "cpu")


def test_other_settings_do_not_go_on_with_a_run(scenes, tmp_path):
    train(recipe(scenes, epochs=1), tmp_path / "run", tmp_path, "cpu")
    with pytest.raises(CheckpointError, match=r"other settings \(train.seed\)"):
        train(recipe(scenes, epochs=1, seed=1), tmp_path / "run", tmp_path, "cpu")


def test_nan_stops_with_the_last_good_checkpoint(scenes, tmp_path):
    asked = recipe(scenes, epochs=3)
    asked = replace(asked, optim=replace(asked.optim, lr=1e30, clip=0.0))
    with pytest.raises(NotFiniteError, match="Lower optim.lr"):
        train(asked, tmp_path / "run", tmp_path, "cpu")


def test_patience_ends_a_run(scenes, tmp_path):
    asked = recipe(scenes, epochs=50, patience=2)
    asked = replace(asked, optim=replace(asked.optim, lr=1e-12))
    train(asked, tmp_path / "run", tmp_path, "cpu")
    assert json.loads((tmp_path / "run" / "result.json").read_text())["epochs"] < 10


def test_a_recipe_with_a_typo_is_refused_by_name(tmp_path):
    file = tmp_path / "r.yaml"
    file.write_text("optim: {lrr: 0.1}\n")
    with pytest.raises(Exception, match="unknown option optim.lrr"):
        parse_recipe(str(file), [])
    file.write_text("optim: {lr: 0.1}\n")
    with pytest.raises(Exception, match="optim.lrr|lrr"):
        parse_recipe(str(file), ["--optim.lrr", "1"])
    found = parse_recipe(str(file), ["--optim.clip", "2", "--train.seed=7"])
    assert (found.optim.lr, found.optim.clip, found.train.seed) == (0.1, 2.0, 7)


def test_runs_without_a_model_are_named(tmp_path):
    with pytest.raises(CheckpointError, match="no run is there"):
        evaluate([str(tmp_path)], cache=tmp_path)
