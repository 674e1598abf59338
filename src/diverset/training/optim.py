"""Parameter groups with their own rates, and the schedule of these rates."""

from __future__ import annotations

import math
from collections.abc import Iterable

import torch
from torch import nn

from diverset.training.settings import OptimConfig

SCALES = {
    "image_encoder.backbone.": "image_backbone_scale",
    "text_encoder.backbone.": "text_backbone_scale",
    "image_encoder.sets.": "set_scale",
    "text_encoder.sets.": "set_scale",
}


def make_optimizer(
    parameters: Iterable[tuple[str, nn.Parameter]], chosen: OptimConfig
) -> torch.optim.Optimizer:
    """AdamW or Adam with one group a rate; `base` remembers each group's full rate."""
    groups: dict[str, list[nn.Parameter]] = {}
    for name, parameter in parameters:
        part = next((part for part in SCALES if name.startswith(part)), "")
        groups.setdefault(part, []).append(parameter)
    settings = [
        {
            "params": members,
            "lr": chosen.lr * _scale(part, chosen),
            "base": chosen.lr * _scale(part, chosen),
            "name": part.rstrip(".") or "rest",
        }
        for part, members in groups.items()
    ]
    kind = torch.optim.AdamW if chosen.name == "adamw" else torch.optim.Adam
    return kind(
        settings,
        lr=chosen.lr,
        weight_decay=chosen.weight_decay,
        amsgrad=chosen.amsgrad,
        fused=True,
    )


def _scale(part: str, chosen: OptimConfig) -> float:
    return float(getattr(chosen, SCALES[part])) if part else 1.0


def rate_factor(step: int, steps_an_epoch: int, epochs: int, chosen: OptimConfig) -> float:
    """What the full rates are multiplied by in this step.

    >>> halfway = rate_factor(50, steps_an_epoch=10, epochs=10, chosen=OptimConfig())
    >>> round(halfway, 3)
    0.5
    """
    if step < chosen.warmup_steps:
        return (step + 1) / chosen.warmup_steps
    if chosen.schedule == "cosine":
        done = (step - chosen.warmup_steps) / max(1, steps_an_epoch * epochs - chosen.warmup_steps)
        return 0.5 * (1 + math.cos(math.pi * min(1.0, done)))
    if chosen.schedule == "step":
        return float(chosen.step_factor ** (step // steps_an_epoch // chosen.step_epochs))
    return 1.0


def set_rates(optimizer: torch.optim.Optimizer, factor: float) -> None:
    for group in optimizer.param_groups:
        group["lr"] = group["base"] * factor
