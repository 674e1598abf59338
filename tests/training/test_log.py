"""The log of a run."""

import json

import torch

from diverset.training.log import TrainLog


def test_lines_after_the_resumed_step_are_removed(tmp_path):
    log = TrainLog(tmp_path, resumed_at=0)
    for step in (1, 2, 3):
        log.training(step, 0, 0.5, {"loss": torch.tensor(2.0)})
    file = tmp_path / "log.jsonl"
    with open(file, "a") as stream:
        stream.write('{"step": 4, "cut')
    TrainLog(tmp_path, resumed_at=2)
    lines = [json.loads(line) for line in file.read_text().splitlines()]
    assert lines == [{"step": step, "epoch": 0, "lr": 0.5, "loss": 2.0} for step in (1, 2)]
