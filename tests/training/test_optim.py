"""Learning rates: schedules against their closed form, groups with their own rates."""

import math

import pytest
import torch
from torch import nn

from diverset.recipe.config import OptimConfig
from diverset.training.optim import make_optimizer, make_scheduler


def learning_rates(config: OptimConfig, steps_per_epoch: int, epochs: int) -> list[float]:
    """The learning rate of every step of a run."""
    weight = nn.Parameter(torch.zeros(1))
    optimizer = make_optimizer([("weight", weight)], config)
    scheduler = make_scheduler(optimizer, config, steps_per_epoch, epochs)
    rates = []
    for _ in range(steps_per_epoch * epochs):
        rates.append(optimizer.param_groups[0]["lr"])
        weight.grad = torch.ones(1)
        optimizer.step()
        scheduler.step()
    return rates


def test_cosine_with_warmup_equals_its_closed_form():
    rates = learning_rates(OptimConfig(lr=0.1, schedule="cosine", warmup_steps=10), 10, 10)
    warmup = [0.1 * ((step + 1) / 10) for step in range(10)]
    cosine = [0.1 * (0.5 * (1 + math.cos(math.pi * (step / 90)))) for step in range(90)]
    assert rates == warmup + cosine


def test_step_schedule_falls_every_step_epochs():
    config = OptimConfig(lr=0.5, schedule="step", step_epochs=2, step_factor=0.1)
    assert learning_rates(config, 5, 6) == [0.5 * 0.1 ** (step // 10) for step in range(30)]


def test_constant_schedule_does_not_change():
    assert learning_rates(OptimConfig(lr=0.5, schedule="constant"), 5, 2) == [0.5] * 10


def test_a_resumed_schedule_continues():
    config = OptimConfig(lr=0.1, warmup_steps=3)
    whole = learning_rates(config, 4, 2)
    optimizer = make_optimizer([("weight", nn.Parameter(torch.zeros(1)))], config)
    scheduler = make_scheduler(optimizer, config, 4, 2)
    for _ in range(5):
        optimizer.step()
        scheduler.step()
    stored = optimizer.state_dict(), scheduler.state_dict()
    optimizer = make_optimizer([("weight", nn.Parameter(torch.zeros(1)))], config)
    scheduler = make_scheduler(optimizer, config, 4, 2)
    optimizer.load_state_dict(stored[0])
    scheduler.load_state_dict(stored[1])
    rates = [optimizer.param_groups[0]["lr"]]
    for _ in range(2):
        optimizer.step()
        scheduler.step()
        rates.append(optimizer.param_groups[0]["lr"])
    assert rates == whole[5:8]


def test_parameter_groups_have_their_own_rates():
    names = ["image_encoder.backbone.a", "image_encoder.sets.b", "text_encoder.sets.c", "other.d"]
    parameters = [(name, nn.Parameter(torch.zeros(1))) for name in names]
    parameters.append(("frozen", nn.Parameter(torch.zeros(1), requires_grad=False)))
    config = OptimConfig(lr=1.0, set_scale=0.1, image_backbone_scale=0.01, warmup_steps=2)
    optimizer = make_optimizer(parameters, config)
    make_scheduler(optimizer, config, 10, 1)  # starts at half of the full rates
    rates = {group["name"]: group["lr"] for group in optimizer.param_groups}
    assert rates == pytest.approx(
        {"image_encoder.backbone": 0.005, "image_encoder.sets": 0.05, "text_encoder.sets": 0.05,
         "rest": 0.5}
    )  # fmt: skip
    assert sum(len(group["params"]) for group in optimizer.param_groups) == 4
