"""Everything that changes while a run trains, and how it is saved and restored."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

import torch
from lightning_fabric import Fabric
from torch import Tensor
from torch.optim import Optimizer
from torch.optim.lr_scheduler import LambdaLR
from torch.optim.swa_utils import AveragedModel

from diverset.errors import CheckpointError
from diverset.losses import Captioner
from diverset.model import Model
from diverset.recipe.config import Recipe
from diverset.recipe.run_folder import CHECKPOINTS
from diverset.training.checkpoint import latest_checkpoint, save_checkpoint
from diverset.training.objective import Objective
from diverset.training.optim import make_optimizer, make_scheduler
from diverset.training.rng import gather_rng_states, restore_rng_state

FORMAT = 3
"""Version of a checkpoint's fields."""
COUNTERS = ("epoch", "batch", "step", "best_rsum", "best_epoch", "seconds", "history")
PARTS = ("model", "objective", "optimizer", "scheduler", "average")


@dataclass
class TrainState:
    """Modules, optimizer and counters of a run.

    Attributes:
        folder: the run folder.
        average: moving average of the weights, if the recipe has one.
        epoch: finished epochs.
        batch: finished batches of the current epoch.
        step: finished optimizer steps.
        best_rsum: best validation RSUM so far; -1 before the first validation.
        best_epoch: number of epochs after which it was reached.
        seconds: time spent in training steps.
        history: epoch and RSUM of every validation.
    """

    folder: Path
    model: Model
    objective: Objective
    optimizer: Optimizer
    scheduler: LambdaLR
    average: AveragedModel | None = None
    epoch: int = 0
    batch: int = 0
    step: int = 0
    best_rsum: float = -1.0
    best_epoch: int = 0
    seconds: float = 0.0
    history: list[dict[str, Any]] = field(default_factory=list)

    @staticmethod
    def create(
        recipe: Recipe,
        model: Model,
        folder: Path,
        steps_per_epoch: int,
        vocabulary_size: int = 0,
    ) -> TrainState:
        """The state before the first step of a recipe, on the device of the model.

        `vocabulary_size` is that of generated captions, if there are any.
        """
        captioner = None
        if recipe.loss.captioning:
            width = cast(Any, model.image_encoder.features).width
            captioner = Captioner(width, vocabulary_size, recipe.loss.captioning_width)
        objective = Objective(recipe.loss, recipe.distill, captioner).to(model.device)
        parameters = [*model.named_parameters(), *objective.named_parameters(prefix="objective")]
        optimizer = make_optimizer(parameters, recipe.optim)
        scheduler = make_scheduler(optimizer, recipe.optim, steps_per_epoch, recipe.train.epochs)
        average = average_of(model, recipe.train.average) if recipe.train.average else None
        return TrainState(folder, model, objective, optimizer, scheduler, average)

    @property
    def evaluated_model(self) -> Model:
        """The averaged weights if the recipe asks for them, otherwise the trained ones."""
        return self.model if self.average is None else cast(Model, self.average.module)

    def result(self) -> dict[str, Any]:
        """The content of result.json."""
        return {
            "rsum": self.best_rsum,
            "epoch": self.best_epoch,
            "epochs": self.epoch,
            "seconds": round(self.seconds, 1),
            "history": self.history,
        }

    def _parts(self) -> dict[str, Any]:
        """What has a state of its own; some recipes have no average."""
        parts = {name: getattr(self, name) for name in PARTS}
        return {name: part for name, part in parts.items() if part is not None}

    def save(self, fabric: Fabric) -> None:
        """Write a checkpoint; all processes have to call it."""
        rng = gather_rng_states(fabric)
        if fabric.is_global_zero:
            content = {
                "format": FORMAT,
                "counters": {name: getattr(self, name) for name in COUNTERS},
                "average": None,
                **{name: part.state_dict() for name, part in self._parts().items()},
                "rng": rng,
                "precision": fabric.strategy.precision.state_dict(),  # the loss scale in float16
            }
            save_checkpoint(self.folder / CHECKPOINTS, self.step, content)
        fabric.barrier()

    def restore(self, fabric: Fabric, seed: int) -> bool:
        """Continue from the newest checkpoint; whether there was one.

        `seed` is for processes that the checkpoint has no random state of.
        """
        folder = self.folder / CHECKPOINTS
        content = latest_checkpoint(folder)
        if content is None:
            return False
        if content.get("format") != FORMAT:
            raise CheckpointError(
                f"the checkpoints in {folder} have format {content.get('format', 1)}, this version "
                f"reads {FORMAT}; start the run in another folder"
            )
        for name, value in content["counters"].items():
            setattr(self, name, value)
        for name, part in self._parts().items():
            part.load_state_dict(content[name])
        self._set_learning_rates()
        fabric.strategy.precision.load_state_dict(content["precision"])
        restore_rng_state(content["rng"], seed, fabric)
        return True

    def _set_learning_rates(self) -> None:
        """The rates of the next step: those of a checkpoint may be of a run with fewer epochs."""
        rates = zip(self.scheduler.base_lrs, self.scheduler.lr_lambdas, strict=True)
        for group, (base, factor) in zip(self.optimizer.param_groups, rates, strict=True):
            group["lr"] = base * factor(self.scheduler.last_epoch)


def average_of(model: torch.nn.Module, decay: float) -> AveragedModel:
    """An exponential moving average of all weights and batch-norm statistics.

    The decay of update t is min(decay, t / (t + 10)), so that the initial weights are forgotten.
    """

    def update(averages: Sequence[Tensor], values: Sequence[Tensor], updates: Tensor | int) -> None:
        weight = 1 - min(decay, float(updates) / (float(updates) + 10))
        for average, value in zip(averages, values, strict=True):
            if average.is_floating_point():
                average.lerp_(value, weight)
            else:
                average.copy_(value)

    average = AveragedModel(model, multi_avg_fn=update, use_buffers=True)
    average.n_averaged.fill_(1)  # at 0, torch overwrites the average
    return average
