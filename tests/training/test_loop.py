"""Whole runs on a few drawn images: resume, kill, NaN, patience."""

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
from lightning_fabric import Fabric
from lightning_fabric.plugins import MixedPrecision
from tiny_networks import small_cnn, train_until

from diverset import Model, Vocabulary
from diverset.errors import CheckpointError, DiversetError, LockedError, OptionError
from diverset.evaluation.open_run import open_run
from diverset.evaluation.options import EvalOptions
from diverset.evaluation.run import evaluate
from diverset.recipe.config import (
    DataConfig,
    LossConfig,
    OptimConfig,
    Recipe,
    SourceConfig,
    TrainConfig,
)
from diverset.recipe.run_folder import read_recipe, start_run
from diverset.reproduce.scenes import ScenesOptions, write_scenes
from diverset.training.checkpoint import latest_checkpoint
from diverset.training.loop import NotFiniteError, set_training_mode, take_step
from diverset.training.state import TrainState
from diverset.training.train import parse_recipe, train

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


def test_a_run_folder_is_complete_and_can_be_evaluated(scenes, tmp_path):
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
    both = evaluate(
        [str(run), str(run)], cache=tmp_path / "cache", options=EvalOptions(split="test")
    )
    alone = evaluate([str(run)], cache=tmp_path / "cache", options=EvalOptions(split="test"))
    assert both.rsum == pytest.approx(alone.rsum)
    options = EvalOptions(similarity="chamfer", image_elements=[1])
    single = evaluate([str(run)], options, cache=tmp_path)
    assert single.n_images == 6


def test_a_run_resumed_in_mid_epoch_has_identical_weights(scenes, tmp_path):
    whole, resumed = tmp_path / "whole", tmp_path / "resumed"
    small = recipe(scenes, checkpoint_minutes=0.0)
    train(small, whole, tmp_path, "cpu")
    train_until(small, resumed, tmp_path, epoch=2, batch=2)
    train(small, resumed, tmp_path, "cpu")
    stored = [latest_checkpoint(run / "checkpoints") for run in (whole, resumed)]
    for part in ("model", "average"):
        for name, tensor in stored[0][part].items():
            assert torch.equal(tensor, stored[1][part][name]), name
    results = [json.loads((run / "result.json").read_text()) for run in (whole, resumed)]
    assert results[0]["history"] == results[1]["history"]


@pytest.mark.slow
def test_a_run_killed_twice_has_identical_weights(scenes, tmp_path):
    script = (
        "import sys; from pathlib import Path; from training.test_loop import recipe, train;"
        "scenes, out, cache = map(Path, sys.argv[1:]);"
        "train(recipe(scenes, epochs=6, checkpoint_minutes=0.0), out, cache, 'cpu')"
    )
    command = [sys.executable, "-c", script, str(scenes), str(tmp_path / "run"), str(tmp_path)]
    paths = [str(Path(__file__).parents[1]), os.environ.get("PYTHONPATH", "")]
    environment = os.environ | {"OMP_NUM_THREADS": "1", "PYTHONPATH": os.pathsep.join(paths)}
    for step in (1, 7):
        process = subprocess.Popen(command, env=environment, stderr=subprocess.DEVNULL)
        deadline = time.monotonic() + 120
        while time.monotonic() < deadline and process.poll() is None:
            stored = sorted((tmp_path / "run" / "checkpoints").glob("step-*.pt"))
            if stored and int(stored[-1].name[5:13]) >= step:
                break
            time.sleep(0.01)
        process.send_signal(signal.SIGKILL)
        process.wait()
        assert stored, "no checkpoint was written in time"
    small = recipe(scenes, epochs=6, checkpoint_minutes=0.0)
    train(small, tmp_path / "run", tmp_path, "cpu")
    train(small, tmp_path / "whole", tmp_path, "cpu")
    for name, tensor in weights(tmp_path / "whole").items():
        assert torch.equal(tensor, weights(tmp_path / "run")[name]), name


def test_a_damaged_checkpoint_is_named_with_the_one_before_it(scenes, tmp_path):
    train(recipe(scenes, epochs=2), tmp_path / "run", tmp_path, "cpu")
    stored = sorted((tmp_path / "run" / "checkpoints").glob("step-*.pt"))
    stored[-1].write_bytes(stored[-1].read_bytes()[:-10])
    with pytest.raises(CheckpointError, match=f"{stored[-1].name} is damaged.*{stored[-2].name}"):
        train(recipe(scenes, epochs=2), tmp_path / "run", tmp_path, "cpu")
    stored[-1].unlink()
    train(recipe(scenes, epochs=2), tmp_path / "run", tmp_path, "cpu")


def test_a_run_cannot_be_resumed_with_other_settings(scenes, tmp_path):
    train(recipe(scenes, epochs=1), tmp_path / "run", tmp_path, "cpu")
    with pytest.raises(CheckpointError, match=r"other settings \(train.seed\)"):
        train(recipe(scenes, epochs=1, seed=1), tmp_path / "run", tmp_path, "cpu")


def test_more_epochs_continue_a_finished_run_with_the_schedule_of_the_longer_one(scenes, tmp_path):
    run = tmp_path / "run"
    train(recipe(scenes, epochs=1), run, tmp_path, "cpu")
    finished = latest_checkpoint(run / "checkpoints")
    assert finished["optimizer"]["param_groups"][0]["lr"] == 0  # the end of a cosine
    with pytest.raises(CheckpointError, match="train.epochs is 2, but the run in .* has 3"):
        train_until(recipe(scenes, epochs=3), run, tmp_path, epoch=2, batch=1)
        train(recipe(scenes, epochs=2), run, tmp_path, "cpu")
    assert not (run / "result.json").exists()  # until the longer run has ended
    train(recipe(scenes, epochs=3), run, tmp_path, "cpu")
    assert read_recipe(run / "recipe.yaml").train.epochs == 3
    assert json.loads((run / "result.json").read_text())["epochs"] == 3
    log = [json.loads(line) for line in (run / "log.jsonl").read_text().splitlines()]
    assert [line["epoch"] for line in log if "val" in line] == [1, 2, 3]
    # The learning rate is that of a run with three epochs from the start.
    train(recipe(scenes, epochs=3), tmp_path / "whole", tmp_path, "cpu")
    rates = [
        latest_checkpoint(folder / "checkpoints")["scheduler"]["_last_lr"]
        for folder in (run, tmp_path / "whole")
    ]
    assert rates[0] == rates[1]
    assert not torch.equal(weights(run)["text_encoder.sets.slots"],
                           finished["model"]["text_encoder.sets.slots"])  # fmt: skip


def test_a_start_that_failed_does_not_block_its_folder(scenes, tmp_path):
    run = tmp_path / "run"
    small = recipe(scenes, epochs=1)
    image = replace(small.model.image, backbone="no_such_network", trainable_blocks=0)
    broken = replace(small, model=replace(small.model, image=image))
    with pytest.raises(DiversetError, match="no_such_network"):
        train(broken, run, tmp_path, "cpu")
    assert not run.exists()
    diverging = replace(small, optim=replace(small.optim, lr=1e30, clip=None))
    with pytest.raises(NotFiniteError):  # before the first checkpoint
        train(diverging, run, tmp_path, "cpu")
    train(small, run, tmp_path, "cpu")
    assert read_recipe(run / "recipe.yaml") == small
    (tmp_path / "file").write_text("")
    with pytest.raises(OptionError, match="file is a file; give another folder"):
        train(small, tmp_path / "file", tmp_path, "cpu")


def test_two_trainings_cannot_write_to_one_folder(scenes, tmp_path):
    small = recipe(scenes, epochs=1)
    with start_run(tmp_path / "run", small), pytest.raises(LockedError, match="another training"):
        train(small, tmp_path / "run", tmp_path, "cpu")


def test_a_loss_that_is_not_finite_stops_the_run(scenes, tmp_path):
    diverging = recipe(scenes, epochs=3)
    diverging = replace(diverging, optim=replace(diverging.optim, lr=1e30, clip=None))
    with pytest.raises(NotFiniteError, match="Lower optim.lr"):
        train(diverging, tmp_path / "run", tmp_path, "cpu")


def test_float16_gradients_are_clipped_by_their_true_norm(tmp_path):
    """Fabric trains in bfloat16 on a CPU, so the scaling of float16 is set up by hand."""
    fabric = Fabric(accelerator="cpu", plugins=MixedPrecision("16-mixed", "cpu"))
    model = torch.nn.Linear(1, 1, bias=False)
    optimizer = torch.optim.SGD(model.parameters(), lr=1.0)
    state = TrainState(tmp_path, model, torch.nn.Identity(), optimizer, None)
    before = model.weight.item()
    losses = {"loss": 0.25 * model.weight.sum()}
    totals = take_step(state, fabric.setup_optimizers(optimizer), losses, 1.0, fabric)
    assert totals["gradient_norm"] == pytest.approx(0.25)
    assert model.weight.item() == pytest.approx(before - 0.25)


def test_a_backbone_trains_its_batch_norms_once_it_is_no_longer_frozen(scenes):
    small = recipe(scenes, frozen_epochs=1)
    model = Model(small.model, Vocabulary.build(["a dog"], 1))
    backbone = model.image_encoder.backbone
    set_training_mode(model, small, epoch=0)
    assert not backbone.training and not any(p.requires_grad for p in backbone.parameters())
    set_training_mode(model, small, epoch=1)
    assert all(p.requires_grad for p in backbone.parameters())
    assert all(module.training for module in backbone.modules())


def test_patience_ends_a_run_without_improvement(scenes, tmp_path):
    standing = recipe(scenes, epochs=50, patience=2)
    standing = replace(standing, optim=replace(standing.optim, lr=1e-12))
    train(standing, tmp_path / "run", tmp_path, "cpu")
    assert json.loads((tmp_path / "run" / "result.json").read_text())["epochs"] < 10


def test_a_misspelt_option_is_named(tmp_path):
    file = tmp_path / "r.yaml"
    file.write_text("optim: {lrr: 0.1}\n")
    with pytest.raises(OptionError, match="unknown option optim.lrr"):
        parse_recipe(str(file), [])
    file.write_text("optim: {lr: 0.1}\n")
    with pytest.raises(OptionError, match="optim.lrr"):
        parse_recipe(str(file), ["--optim.lrr", "1"])
    parsed = parse_recipe(str(file), ["--optim.clip", "2", "--train.seed=7"])
    assert (parsed.optim.lr, parsed.optim.clip, parsed.train.seed) == (0.1, 2.0, 7)


def test_evaluating_an_empty_folder_raises(tmp_path):
    with pytest.raises(CheckpointError, match="is not the folder of a run or a model"):
        evaluate([str(tmp_path)], cache=tmp_path)


def two_datasets(scenes: Path, select: str) -> Recipe:
    """The same scenes as two datasets; both are validated on, with other images."""
    options = {"file": "dataset_scenes.json", "images": "images"}
    first = SourceConfig(name="first", **options, weight=0.5)
    second = SourceConfig(name="second", **options, train="test", val="test", test=None)
    small = recipe(scenes, epochs=2)
    data = DataConfig(root=str(scenes), sources=(first, second), min_count=1)
    return replace(small, data=data, train=replace(small.train, select=select))


@pytest.mark.parametrize("select", ["mean", "second"])
def test_several_datasets_are_trained_on_and_validated_by_name(scenes, tmp_path, select):
    run = tmp_path / "run"
    train(two_datasets(scenes, select), run, tmp_path, "cpu")
    lines = [json.loads(line) for line in (run / "log.jsonl").read_text().splitlines()]
    reports = [line["val"] for line in lines if "val" in line]
    assert [sorted(report) for report in reports] == [["first", "second"]] * 2
    result = json.loads((run / "result.json").read_text())
    for epoch in result["history"]:
        rsums = epoch["rsums"]
        selected = sum(rsums.values()) / 2 if select == "mean" else rsums["second"]
        assert epoch["rsum"] == pytest.approx(selected)
    assert result["rsum"] == max(epoch["rsum"] for epoch in result["history"])
    best = result["history"][result["epoch"] - 1]["rsums"]
    for name, rsum in best.items():
        split = "first:val" if name == "first" else "second:test"
        options = EvalOptions(split=split)
        assert evaluate([str(run)], options, cache=tmp_path).rsum == pytest.approx(rsum)
    together = evaluate([str(run)], EvalOptions(split="val"), cache=tmp_path)
    assert together.n_images == 12


def test_sources_can_be_given_in_yaml(tmp_path):
    file = tmp_path / "r.yaml"
    file.write_text(
        "data: {sources: [{name: a, file: a, weight: 2}, {name: b, file: b, val: null}]}\n"
        "train: {select: a}\n"
    )
    parsed = parse_recipe(str(file), ["--data.root", "x"])
    assert [source.name for source in parsed.data.sources] == ["a", "b"]
    assert parsed.data.sources[0].weight == 2.0 and parsed.data.sources[1].val is None
    file.write_text("data: {sources: [{name: a, flie: a.json}]}\n")
    with pytest.raises(OptionError, match=r"unknown option data.sources\[0\].flie"):
        parse_recipe(str(file), [])
    file.write_text("train: {select: b}\n")
    with pytest.raises(OptionError, match="train.select is 'b'; choose one of: mean, val"):
        parse_recipe(str(file), [])


def test_a_run_with_short_texts_resumes_with_identical_weights(scenes, tmp_path):
    content = json.loads((scenes / "dataset_scenes.json").read_text())
    for number, entry in enumerate(content["images"]):
        entry["labels"] = ["square", f"number {number}"]
    (scenes / "dataset_labels.json").write_text(json.dumps(content))
    small = recipe(scenes, epochs=2, captions=2, checkpoint_minutes=0.0)
    loss = replace(small.loss, contrastive=1.0, mask_related=True, start=None, start_epochs=0)
    small = replace(
        small, data=replace(small.data, short_texts=0.4, file="dataset_labels.json"), loss=loss
    )
    train(small, tmp_path / "whole", tmp_path, "cpu")
    train_until(small, tmp_path / "resumed", tmp_path, epoch=2, batch=2)
    train(small, tmp_path / "resumed", tmp_path, "cpu")
    for name, tensor in weights(tmp_path / "whole").items():
        assert torch.equal(tensor, weights(tmp_path / "resumed")[name]), name
    plain = replace(small, data=replace(small.data, short_texts=0.0))
    train(plain, tmp_path / "plain", tmp_path, "cpu")
    name = "text_encoder.sets.slots"
    assert not torch.equal(weights(tmp_path / "plain")[name], weights(tmp_path / "whole")[name])
