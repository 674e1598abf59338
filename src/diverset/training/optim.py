"""Parameter groups with their own learning rates, and the schedule of these rates."""

from __future__ import annotations

import math
from collections.abc import Iterable

import torch
from torch import nn
from torch.optim.lr_scheduler import LambdaLR

from diverset.recipe.config import OptimConfig

SCALES = {
    "image_encoder.backbone.": "image_backbone_scale",
    "text_encoder.backbone.": "text_backbone_scale",
    "image_encoder.sets.": "set_scale",
    "text_encoder.sets.": "set_scale",
}
"""Prefix of parameter names -> the option that scales their learning rate."""


def make_optimizer(
    parameters: Iterable[tuple[str, nn.Parameter]], config: OptimConfig
) -> torch.optim.Optimizer:
    """AdamW or Adam over all trainable parameters, one group per learning rate."""
    groups: dict[str, list[nn.Parameter]] = {}
    for name, parameter in parameters:
        if parameter.requires_grad:
            prefix = next((prefix for prefix in SCALES if name.startswith(prefix)), "")
            groups.setdefault(prefix, []).append(parameter)
    settings = [
        {
            "params": members,
            "lr": config.lr * (float(getattr(config, SCALES[prefix])) if prefix else 1.0),
            "name": prefix.rstrip(".") or "rest",
        }
        for prefix, members in groups.items()
    ]
    kind = torch.optim.AdamW if config.name == "adamw" else torch.optim.Adam
    return kind(
        settings,
        lr=config.lr,
        weight_decay=config.weight_decay,
        amsgrad=config.amsgrad,
        fused=True,
    )


def make_scheduler(
    optimizer: torch.optim.Optimizer, config: OptimConfig, steps_per_epoch: int, epochs: int
) -> LambdaLR:
    """Linear warm-up, then "cosine", "step" or "constant"; step it after every optimizer step.

    >>> weight = nn.Parameter(torch.zeros(1))
    >>> scheduler = make_scheduler(torch.optim.SGD([weight], lr=1.0), OptimConfig(), 10, 10)
    >>> round(scheduler.lr_lambdas[0](50), 3)
    0.5
    """
    warmup = config.warmup_steps

    def factor(step: int) -> float:
        if step < warmup:
            return (step + 1) / warmup
        if config.schedule == "cosine":
            done = (step - warmup) / max(1, steps_per_epoch * epochs - warmup)
            return 0.5 * (1 + math.cos(math.pi * min(1.0, done)))
        if config.schedule == "step":
            return float(config.step_factor ** (step // steps_per_epoch // config.step_epochs))
        return 1.0

    return LambdaLR(optimizer, factor)
