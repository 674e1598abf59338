"""Training with two processes (gloo, CPU): a frozen backbone, resuming, checkpoints."""

import os
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from lightning_fabric import Fabric
from lightning_fabric.plugins import MixedPrecision
from tiny_networks import scenes_recipe
from two_processes import run_in_two_processes

from diverset import Model, Vocabulary
from diverset.reproduce.scenes import ScenesOptions, write_scenes
from diverset.training.checkpoint import latest_checkpoint
from diverset.training.rng import gather_rng_states, restore_rng_state, seed_process
from diverset.training.state import TrainState
from diverset.training.train import train

pytestmark = pytest.mark.filterwarnings("ignore::UserWarning:lightning_fabric")


def recipe(folder: Path, **options):
    small = scenes_recipe(folder, **{"frozen_epochs": 1, "checkpoint_minutes": 0.0} | options)
    # A constant rate, so that a run may be continued as if it had been as long from the start.
    return replace(small, optim=replace(small.optim, schedule="constant"))


def train_two_runs(rank):
    """A run of two epochs, and one of one epoch that is continued; the backbone is frozen first."""
    os.environ |= {"LOCAL_RANK": str(rank), "NODE_RANK": "0"}  # as a launcher sets them
    folder = Path(os.environ["DIVERSET_TEST_FOLDER"])
    train(recipe(folder / "scenes", epochs=2), folder / "whole", folder, "cpu", processes=2)
    for epochs in (1, 2):
        options = recipe(folder / "scenes", epochs=epochs)
        train(options, folder / "continued", folder, "cpu", processes=2)
        if epochs == 1:
            frozen = latest_checkpoint(folder / "continued" / "checkpoints")
    return frozen["model"]


@pytest.mark.slow
def test_two_processes_freeze_a_backbone_and_resume_with_identical_weights(tmp_path, monkeypatch):
    write_scenes(tmp_path / "scenes", train=8, val=4, test=4, options=ScenesOptions(size=32))
    monkeypatch.setenv("DIVERSET_TEST_FOLDER", str(tmp_path))
    frozen = run_in_two_processes(train_two_runs, tmp_path, monkeypatch)[0]
    whole, continued = (
        latest_checkpoint(tmp_path / run / "checkpoints") for run in ("whole", "continued")
    )
    for name, tensor in whole["model"].items():
        assert torch.equal(tensor, continued["model"][name]), name
    trained = [name for name in frozen if not torch.equal(frozen[name], whole["model"][name])]
    assert any("backbone" in name for name in trained)
    initial = initial_weights(tmp_path)
    for name, tensor in frozen.items():
        if "backbone" in name and "num_batches" not in name:
            assert torch.equal(tensor, initial[name]), name
    states = [state["cpu"] for state in whole["rng"]]
    assert len(states) == 2 and not torch.equal(states[0], states[1])


def initial_weights(folder: Path) -> dict[str, torch.Tensor]:
    """The weights of a new model of the recipe."""
    from diverset.recipe.datasets import DatasetReader
    from diverset.training.initial_model import make_model

    small = recipe(folder / "scenes")
    torch.manual_seed(small.train.seed)
    return make_model(small, DatasetReader(small.data)).state_dict()


def test_a_resumed_process_continues_its_random_numbers():
    fabric = Fabric(accelerator="cpu")
    seed_process(3, fabric)
    states = gather_rng_states(fabric)
    expected = torch.rand(3)
    restore_rng_state(states, 3, fabric)
    assert torch.equal(torch.rand(3), expected)
    # Checkpoints of another number of processes: seeded as at the start.
    torch.rand(1)
    restore_rng_state([*states, *states], 3, fabric)
    assert torch.equal(torch.rand(3), expected)


def test_the_scale_of_float16_losses_is_part_of_a_checkpoint(tmp_path):
    small = scenes_recipe(tmp_path)

    def start() -> tuple[TrainState, Fabric]:
        model = Model(small.model, Vocabulary.build(["a dog"], 1))
        state = TrainState.create(small, model, tmp_path, steps_per_epoch=2)
        return state, Fabric(accelerator="cpu", plugins=MixedPrecision("16-mixed", "cpu"))

    state, fabric = start()
    scaler = fabric.strategy.precision.scaler
    scaler.scale(torch.ones(1))  # sets the scale to its initial value
    scaler.update(256.0)
    state.save(fabric)
    state, fabric = start()
    assert state.restore(fabric, seed=0)
    assert fabric.strategy.precision.scaler.get_scale() == 256.0
