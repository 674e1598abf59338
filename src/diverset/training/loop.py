"""The training loop, on Lightning Fabric, in plain sight.

One process or many, CPU or GPU, any precision: `fit` is the same. Killed at any moment, the same
call goes on from the last checkpoint, and on a CPU ends with the very same weights. The best
epoch is chosen by the validation RSUM and by nothing else.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from lightning_fabric import Fabric
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel

from diverset.data.files import write_durably
from diverset.errors import DiversetError
from diverset.evaluation import evaluate_sets
from diverset.model import Model
from diverset.training.average import Average
from diverset.training.batches import Batch, Batches
from diverset.training.checkpoint import latest_checkpoint, save_checkpoint
from diverset.training.encoding import encode_split
from diverset.training.gather import gather_owners, gather_places, gather_sets
from diverset.training.guides import Guides
from diverset.training.memory import keep_freed_memory
from diverset.training.objective import Objective
from diverset.training.opening import Opened
from diverset.training.optim import make_optimizer, rate_factor, set_rates
from diverset.training.run import LOG, MODEL, RESULT, JsonLog
from diverset.training.settings import Recipe

Progress = Callable[[str, int, int], None]
LOG_EVERY = 10


class NotFiniteError(DiversetError):
    """The loss became NaN or infinite."""


@dataclass
class Position:
    """Where a run stands; stored with every checkpoint."""

    epoch: int = 0
    batch: int = 0
    step: int = 0
    best: float = -1.0
    best_epoch: int = -1
    seconds: float = 0.0
    history: list[dict[str, Any]] = field(default_factory=list)


def fit(
    recipe: Recipe,
    model: Model,
    train: Opened,
    val: Opened,
    folder: Path,
    fabric: Fabric,
    progress: Progress | None = None,
    guides: Guides | None = None,
) -> dict[str, Any]:
    """Train, and return the best validation result; the model keeps the last weights."""
    keep_freed_memory()
    return _Run(recipe, model, train, val, folder, fabric, progress, guides or Guides()).go()


class _Run:
    def __init__(
        self,
        recipe: Recipe,
        model: Model,
        train: Opened,
        val: Opened,
        folder: Path,
        fabric: Fabric,
        progress: Progress | None,
        guides: Guides,
    ) -> None:
        self.recipe, self.folder, self.fabric, self.progress = recipe, folder, fabric, progress
        self.train, self.val, self.plain, self.guides = train, val, model, guides
        self.objective = Objective(recipe.loss, recipe.distill).to(fabric.device)
        self.at = Position()
        named = [(n, p) for n, p in model.named_parameters() if p.requires_grad]
        named += list(self.objective.named_parameters(prefix="objective"))
        self.weights = [parameter for _, parameter in named]
        self.average = Average(model, recipe.train.average) if recipe.train.average else None
        optimizer = make_optimizer(named, recipe.optim)
        fabric.to_device(model)
        # Wrapped here, not by Fabric, whose wrapper does not pass frozen dataclasses through.
        several = fabric.world_size > 1
        self.model: nn.Module = DistributedDataParallel(model) if several else model
        self.optimizer: Any = fabric.setup_optimizers(optimizer)
        self._restore()
        self.log = JsonLog(folder / LOG, self.at.step) if fabric.is_global_zero else None
        self.board = _board(folder) if fabric.is_global_zero else None

    def go(self) -> dict[str, Any]:
        chosen = self.recipe.train
        while self.at.epoch < chosen.epochs and not self._out_of_patience():
            self._epoch()
            self.at.epoch, self.at.batch = self.at.epoch + 1, 0
            last = self.at.epoch == chosen.epochs
            if last or self.at.epoch % chosen.evaluate_every == 0:
                self._evaluate()
            self._save()
        found = {
            "rsum": self.at.best,
            "epoch": self.at.best_epoch,
            "epochs": self.at.epoch,
            "seconds": round(self.at.seconds, 1),
            "history": self.at.history,
        }
        if self.fabric.is_global_zero:
            write_durably(self.folder / RESULT, json.dumps(found, indent=2).encode())
        return found

    def _epoch(self) -> None:
        chosen, fabric = self.recipe.train, self.fabric
        batches = Batches(
            self.train.images,
            self.train.texts,
            self.train.by_image,
            chosen.batch_size,
            chosen.seed,
            self.at.epoch,
            chosen.captions,
            fabric.global_rank,
            fabric.world_size,
        )
        self._set_mode()
        saved = started = time.monotonic()
        for batch in batches.walk(self.at.batch, chosen.workers):
            factor = rate_factor(self.at.step, len(batches), chosen.epochs, self.recipe.optim)
            set_rates(self.optimizer, factor)
            parts = self._step(batch.to(fabric.device))
            self.at.batch, self.at.step = self.at.batch + 1, self.at.step + 1
            now = time.monotonic()
            self.at.seconds, started = self.at.seconds + now - started, now
            self._report(parts, len(batches))
            if now - saved > 60 * chosen.checkpoint_minutes:
                self._save()
                saved = now

    def _step(self, batch: Batch) -> dict[str, Tensor]:
        with self.fabric.autocast():
            images, texts = self.model(batch.images, batch.texts)
        for side, sets in (("image sets", images), ("text sets", texts)):
            if not sets.elements.isfinite().all():
                self._stop_not_finite([side])
        owners = gather_owners(batch.owners, len(images.elements))
        images, texts = gather_sets(images), gather_sets(texts)
        places = gather_places(batch.image_places), gather_places(batch.text_places)
        hints = self.guides.of(*places)
        parts: dict[str, Tensor]
        with self.fabric.autocast():
            parts = self.objective(self.plain, images, texts, owners, self.at.epoch, hints)
        loss = torch.stack(list(parts.values())).sum()
        if not loss.isfinite():
            self._stop_not_finite([n for n, one in parts.items() if not one.isfinite()])
        self.optimizer.zero_grad()
        self.fabric.backward(loss)
        if self.recipe.optim.clip:
            norm = nn.utils.clip_grad_norm_(self.weights, self.recipe.optim.clip)
            parts["gradient"] = norm.detach()
        self.optimizer.step()
        if self.average is not None:
            self.average.update(self.plain)
        return parts | {"loss": loss.detach()}

    def _stop_not_finite(self, wrong: list[str]) -> None:
        raise NotFiniteError(
            f"{', '.join(wrong)} became NaN or infinite in epoch {self.at.epoch + 1}, step "
            f"{self.at.step}; the last good checkpoint is in {self.folder / 'checkpoints'}. Lower "
            "optim.lr, or train with precision 32-true"
        )

    def _evaluate(self) -> None:
        if not self.fabric.is_global_zero:
            self.fabric.barrier()
            return
        if self.average is not None:
            self.average.swap(self.plain)
        images, texts = encode_split(self.plain, self.val)
        similarity, options = self.plain.own_similarity()
        report = evaluate_sets(
            images,
            texts,
            self.val.collection.owners,
            similarity,
            health=self.plain.has_sets,
            **options,
        )
        found = report.to_dict()
        self.at.history.append({"epoch": self.at.epoch, "rsum": report.rsum})
        if report.rsum > self.at.best:
            self.at.best, self.at.best_epoch = report.rsum, self.at.epoch
            self.plain.save_pretrained(self.folder / MODEL)
        if self.average is not None:
            self.average.swap(self.plain)
        if self.log is not None and self.board is not None:
            self.log.write(step=self.at.step, epoch=self.at.epoch, val=found)
            self.board.add_scalar("val/rsum", report.rsum, self.at.step)
        if self.progress is not None:
            best = f"best {self.at.best:.1f}"
            self.progress(
                f"epoch {self.at.epoch}: val RSUM {report.rsum:.1f}, {best}",
                self.at.epoch,
                self.recipe.train.epochs,
            )
        self.fabric.barrier()

    def _set_mode(self) -> None:
        """Training mode, except for what is frozen or keeps its statistics."""
        chosen = self.recipe.train
        self.plain.train()
        network = self.plain.image_encoder.backbone
        if network is None:
            return
        blocks = self.recipe.model.image.trained_blocks
        frozen = self.at.epoch < chosen.frozen_epochs
        trained = len(network.stages()) if blocks < 0 else blocks
        if chosen.frozen_epochs:
            network.freeze_below(0 if frozen else trained)
        if frozen:
            network.eval()
        elif chosen.fixed_batch_norm:
            for module in network.modules():
                if isinstance(module, nn.modules.batchnorm._BatchNorm):
                    module.eval()

    def _out_of_patience(self) -> bool:
        patience = self.recipe.train.patience
        return bool(patience) and self.at.epoch - max(self.at.best_epoch, 0) >= patience

    def _report(self, parts: dict[str, Tensor], batches: int) -> None:
        if self.log is None or self.board is None:
            return
        if self.at.step % LOG_EVERY == 0:
            values = {name: float(part.detach()) for name, part in parts.items()}
            rate = self.optimizer.param_groups[0]["lr"]
            self.log.write(step=self.at.step, epoch=self.at.epoch, lr=rate, **values)
            for name, value in values.items():
                self.board.add_scalar(f"train/{name}", value, self.at.step)
        if self.progress is not None:
            self.progress(f"epoch {self.at.epoch + 1}", self.at.batch, batches)

    def _save(self) -> None:
        if self.fabric.is_global_zero:
            content = {
                "position": dict(vars(self.at)),
                "model": self.plain.state_dict(),
                "objective": self.objective.state_dict(),
                "optimizer": self.optimizer.state_dict(),
                "average": None if self.average is None else self.average.weights,
                "rng": torch.get_rng_state(),
                "cuda_rng": torch.cuda.get_rng_state_all() if torch.cuda.is_available() else [],
            }
            save_checkpoint(self.folder / "checkpoints", self.at.step, content)
        self.fabric.barrier()

    def _restore(self) -> None:
        content = latest_checkpoint(self.folder / "checkpoints")
        if content is None:
            # The seed decides dropout as well; ranks must differ in it.
            torch.manual_seed(self.recipe.train.seed * 1000 + self.fabric.global_rank)
            return
        self.at = Position(**content["position"])
        self.plain.load_state_dict(content["model"])
        self.objective.load_state_dict(content["objective"])
        self.optimizer.load_state_dict(content["optimizer"])
        if self.average is not None:
            self.average.weights = content["average"]
        torch.set_rng_state(content["rng"])
        if content["cuda_rng"] and torch.cuda.is_available():
            torch.cuda.set_rng_state_all(content["cuda_rng"])


def _board(folder: Path) -> Any:
    from torch.utils.tensorboard.writer import SummaryWriter

    return SummaryWriter(folder / "tensorboard")
