"""The log of a run: JSON lines and TensorBoard, with the same values in both."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from torch import Tensor
from torch.utils.tensorboard.writer import SummaryWriter

from diverset.evaluation import Report
from diverset.recipe.run_folder import LOG
from diverset.runtime.files import write_durably


class TrainLog:
    """Writes to log.jsonl and tensorboard/ of a run folder.

    Lines after step `resumed_at` were written by steps that will be repeated; they are removed.
    """

    def __init__(self, folder: Path, resumed_at: int) -> None:
        self.file = folder / LOG
        lines = self.file.read_text().splitlines() if self.file.exists() else []
        valid = [line for line in lines if _step(line) <= resumed_at]
        if len(valid) < len(lines):
            write_durably(self.file, "".join(line + "\n" for line in valid).encode())
        self.board = SummaryWriter(folder / "tensorboard")

    def training(self, step: int, epoch: int, lr: float, losses: Mapping[str, Tensor]) -> None:
        """Losses and learning rate of one step."""
        values = {name: float(loss.detach()) for name, loss in losses.items()}
        self._write(step=step, epoch=epoch, lr=lr, **values)
        for name, value in values.items():
            self.board.add_scalar(f"train/{name}", value, step)

    def validation(self, step: int, epoch: int, reports: Mapping[str, Report]) -> None:
        """Reports by validation set; a recipe with one dataset calls its set "val"."""
        values = {name: report.to_dict() for name, report in reports.items()}
        self._write(
            step=step, epoch=epoch, val=values["val"] if list(values) == ["val"] else values
        )
        for name, report in reports.items():
            scalar = "val/rsum" if name == "val" else f"val/{name}/rsum"
            self.board.add_scalar(scalar, report.rsum, step)

    def _write(self, **values: Any) -> None:
        with open(self.file, "a", encoding="utf-8") as file:
            file.write(json.dumps(values) + "\n")


def _step(line: str) -> int:
    try:
        return int(json.loads(line)["step"])
    except (ValueError, KeyError):
        return sys.maxsize  # a line cut short by a kill
