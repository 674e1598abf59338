"""The average of the weights, and checkpoints of another format."""

import pytest
import torch
from lightning_fabric import Fabric
from tiny_networks import scenes_recipe
from torch import nn

from diverset import Model, Vocabulary
from diverset.errors import CheckpointError
from diverset.training.checkpoint import save_checkpoint
from diverset.training.state import TrainState, average_of


def test_the_average_equals_a_loop_over_all_updates():
    module = nn.Sequential(nn.Linear(2, 2), nn.BatchNorm1d(2))
    average = average_of(module, decay=0.3)
    expected = {name: value.clone() for name, value in module.state_dict().items()}
    for update in range(1, 9):
        module(torch.randn(4, 2))  # moves the batch-norm statistics
        with torch.no_grad():
            module[0].weight.add_(torch.randn(2, 2))
        average.update_parameters(module)
        decay = min(0.3, update / (update + 10))
        for name, value in module.state_dict().items():
            if value.is_floating_point():
                expected[name] = expected[name] + (value - expected[name]) * (1 - decay)
            else:
                expected[name] = value.clone()
    for name, value in average.module.state_dict().items():
        torch.testing.assert_close(value, expected[name])
    assert not torch.equal(average.module[0].weight, module[0].weight)


def test_a_checkpoint_of_an_older_format_is_refused(tmp_path):
    recipe = scenes_recipe(tmp_path)
    model = Model(recipe.model, Vocabulary.build(["a dog"], 1))
    state = TrainState.create(recipe, model, tmp_path, steps_per_epoch=2)
    fabric = Fabric(accelerator="cpu")
    assert not state.restore(fabric, seed=0)
    save_checkpoint(tmp_path / "checkpoints", 1, {"position": {}})
    with pytest.raises(CheckpointError, match="format 1, this version reads 3"):
        state.restore(fabric, seed=0)
