"""The training loop, on Lightning Fabric.

The same code runs with one or more processes, on CPU or GPU, in any precision. A killed run
resumes from its last checkpoint; with one process on a CPU the final weights are bit-identical to
those of an uninterrupted run. The best epoch is selected by the validation RSUM.
"""

from __future__ import annotations

import io
import time
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from statistics import fmean
from typing import Any

import numpy as np
import torch
from lightning_fabric import Fabric
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel

from diverset.errors import DiversetError
from diverset.evaluation import Report, evaluate_sets
from diverset.model import Model
from diverset.recipe.config import Recipe, TrainConfig
from diverset.recipe.encode import encode_split
from diverset.recipe.run_folder import CHECKPOINTS, MODEL, RESULT, VALIDATION, VALIDATION_RANKS
from diverset.recipe.splits import SplitData
from diverset.runtime.files import write_durably, write_json
from diverset.runtime.memory import tune_glibc_malloc
from diverset.runtime.progress import Progress
from diverset.training.auxiliary_targets import AuxiliaryTargets
from diverset.training.batches import Batch, Batches
from diverset.training.gather import gather_image_index, gather_rows, gather_sets
from diverset.training.log import TrainLog
from diverset.training.rng import seed_process
from diverset.training.state import TrainState

LOG_EVERY = 10  # steps


class NotFiniteError(DiversetError):
    """The loss became NaN or infinite."""


def fit(
    recipe: Recipe,
    model: Model,
    train: SplitData,
    val: Mapping[str, SplitData],
    folder: Path,
    fabric: Fabric,
    targets: AuxiliaryTargets,
    progress: Progress,
) -> dict[str, Any]:
    """Train `model` in place, from the last checkpoint in `folder` if there is one.

    `val` holds the validation sets by name. The best model, the log, checkpoints and the result
    are written to `folder`.
    """
    tune_glibc_malloc()
    config = recipe.train
    batches = Batches(train, recipe, 0, fabric.global_rank, fabric.world_size)
    fabric.to_device(model)
    state = TrainState.create(recipe, model, folder, len(batches), targets.vocabulary_size)
    if not state.restore(fabric, config.seed):
        seed_process(config.seed, fabric)  # decides dropout
    optimizer: Any = fabric.setup_optimizers(state.optimizer)
    forward: nn.Module | None = None
    # Only the first process logs and validates.
    log = TrainLog(folder, state.step) if fabric.is_global_zero else None
    saved = time.monotonic()

    while state.epoch < config.epochs and not out_of_patience(state, config):
        set_training_mode(model, recipe, state.epoch)
        if forward is None or state.epoch == config.frozen_epochs:  # the backbone is trained now
            # Not fabric.setup: its wrapper cannot pass frozen dataclasses.
            forward = DistributedDataParallel(model) if fabric.world_size > 1 else model
        started = time.monotonic()
        epoch_batches = replace(batches, epoch=state.epoch)
        for batch in epoch_batches.iterate(first=state.batch, workers=config.workers):
            losses = compute_losses(state, forward, batch.to(fabric.device), targets, fabric)
            check_finite(losses, state)
            totals = take_step(state, optimizer, losses, recipe.optim.clip, fabric)
            now = time.monotonic()
            state.seconds, started = state.seconds + now - started, now
            if log is not None and state.step % LOG_EVERY == 0:
                lr = float(state.scheduler.get_last_lr()[0])
                log.training(state.step, state.epoch, lr, losses | totals)
            state.scheduler.step()
            progress.update(f"epoch {state.epoch + 1}", state.batch, len(batches))
            # Decided by the first process: clocks differ, and all have to save at the same step.
            if fabric.broadcast(now - saved > 60 * config.checkpoint_minutes):
                state.save(fabric)
                saved = now

        state.epoch, state.batch = state.epoch + 1, 0
        if state.epoch == config.epochs or state.epoch % config.evaluate_every == 0:
            if log is not None:
                reports = validate(state, val, config.select)
                log.validation(state.step, state.epoch, reports)
                rsums = ", ".join(f"{name} RSUM {reports[name].rsum:.1f}" for name in reports)
                progress.message(f"epoch {state.epoch}: {rsums}, best {state.best_rsum:.1f}")
            # All processes must end a run in the same epoch.
            best = (state.best_rsum, state.best_epoch)
            state.best_rsum, state.best_epoch = fabric.broadcast(best)
        state.save(fabric)

    result = state.result()
    if fabric.is_global_zero:
        write_json(folder / RESULT, result)
    return result


def compute_losses(
    state: TrainState, forward: nn.Module, batch: Batch, targets: AuxiliaryTargets, fabric: Fabric
) -> dict[str, Tensor]:
    """Weighted losses of a batch by name, over the items of all processes."""
    with fabric.autocast():
        images, texts = forward(batch.images, batch.texts)
    check_finite({"image sets": images.elements, "text sets": texts.elements}, state)
    image_index = gather_image_index(batch.image_index, len(images.elements))
    images = gather_sets(images, with_features=state.objective.captioner is not None)
    texts = gather_sets(texts)
    batch_targets = targets.of_batch(gather_rows(batch.image_rows), gather_rows(batch.text_rows))
    with fabric.autocast():
        losses: dict[str, Tensor] = state.objective(
            state.model, images, texts, image_index, state.epoch, batch_targets
        )
    return losses


def take_step(
    state: TrainState,
    optimizer: Any,
    losses: dict[str, Tensor],
    clip: float | None,
    fabric: Fabric,
) -> dict[str, Tensor]:
    """An optimizer step on the sum of the losses; returns the sum and the gradient norm."""
    totals = {"loss": torch.stack(list(losses.values())).sum()}
    optimizer.zero_grad()
    fabric.backward(totals["loss"])
    if clip is not None:
        # In float16 the loss is scaled, and a scaled gradient would always be clipped.
        fabric.strategy.precision.unscale_gradients(state.optimizer)
        parameters = [*state.model.parameters(), *state.objective.parameters()]
        totals["gradient_norm"] = nn.utils.clip_grad_norm_(parameters, clip)
    optimizer.step()
    if state.average is not None:
        state.average.update_parameters(state.model)
    state.batch, state.step = state.batch + 1, state.step + 1
    return totals


def check_finite(values: dict[str, Tensor], state: TrainState) -> None:
    """Raise with the names of the values that are NaN or infinite."""
    wrong = [name for name, value in values.items() if not value.isfinite().all()]
    if wrong:
        raise NotFiniteError(
            f"{', '.join(wrong)} became NaN or infinite in epoch {state.epoch + 1}, step "
            f"{state.step}; checkpoints up to then are in {state.folder / CHECKPOINTS}. Lower "
            "optim.lr, or use train.precision float32"
        )


def set_training_mode(model: Model, recipe: Recipe, epoch: int) -> None:
    """Training mode, except for frozen parts and fixed batch-norm statistics."""
    config = recipe.train
    frozen = epoch < config.frozen_epochs
    backbone = model.image_encoder.backbone
    if backbone is not None and config.frozen_epochs:
        blocks = recipe.model.image.trainable_blocks
        trained = len(backbone.stages()) if blocks < 0 else blocks  # -1: all
        backbone.set_trainable_blocks(0 if frozen else trained)
    model.train()  # blocks that are frozen now stay in evaluation mode
    if backbone is None:
        return
    if frozen:
        backbone.eval()
    elif config.fixed_batch_norm:
        for module in backbone.modules():
            if isinstance(module, nn.modules.batchnorm._BatchNorm):
                module.eval()


def validate(state: TrainState, val: Mapping[str, SplitData], select: str) -> dict[str, Report]:
    """Evaluate the model on all validation sets, and save it if it is the best so far.

    `select` is the name of the set that decides, or "mean" for the mean RSUM of all.
    """
    model = state.evaluated_model
    reports = {name: evaluate_split(model, split) for name, split in val.items()}
    rsums = {name: report.rsum for name, report in reports.items()}
    rsum = fmean(rsums.values()) if select == "mean" else rsums[select]
    by_set = {"rsums": rsums} if len(rsums) > 1 else {}
    state.history.append({"epoch": state.epoch, "rsum": rsum, **by_set})
    if rsum > state.best_rsum:
        state.best_rsum, state.best_epoch = rsum, state.epoch
        model.save_pretrained(state.folder / MODEL)
        if len(reports) == 1:
            save_validation(state.folder, next(iter(reports.values())))
    return reports


def save_validation(folder: Path, report: Report) -> None:
    """Store the report and the ranks of the best epoch."""
    ranks = io.BytesIO()
    np.savez(ranks, **vars(report.ranks))
    write_durably(folder / VALIDATION_RANKS, ranks.getvalue())
    write_durably(folder / VALIDATION, report.to_json().encode())


def evaluate_split(model: Model, split: SplitData) -> Report:
    """Recalls of the model's own similarity on a whole split."""
    images, texts = encode_split(model, split)
    similarity, options = model.own_similarity()
    index = split.dataset.image_index
    return evaluate_sets(images, texts, index, similarity, health=model.has_sets, **options)


def out_of_patience(state: TrainState, config: TrainConfig) -> bool:
    """Whether the best epoch is `train.patience` or more epochs ago."""
    return config.patience is not None and state.epoch - state.best_epoch >= config.patience
