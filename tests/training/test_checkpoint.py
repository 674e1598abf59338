"""Checkpoint files: the last two are kept, damage is detected."""

import pytest
import torch

from diverset.errors import CheckpointError
from diverset.training.checkpoint import latest_checkpoint, load_checkpoint, save_checkpoint


def test_the_last_two_checkpoints_are_kept(tmp_path):
    assert latest_checkpoint(tmp_path) is None
    for step in (1, 2, 3):
        save_checkpoint(tmp_path, step, {"step": step, "weights": torch.ones(2)})
    assert len(list(tmp_path.iterdir())) == 2
    assert latest_checkpoint(tmp_path)["step"] == 3


def test_a_damaged_checkpoint_raises(tmp_path):
    file = save_checkpoint(tmp_path, 1, {"step": 1})
    file.write_bytes(b"")
    with pytest.raises(CheckpointError, match="damaged.*start the run again"):
        latest_checkpoint(tmp_path)


def test_a_file_with_another_name_is_not_a_checkpoint(tmp_path):
    (tmp_path / "model.pt").write_bytes(b"x")
    with pytest.raises(CheckpointError, match="is not a checkpoint; give a file step-STEP"):
        load_checkpoint(tmp_path / "model.pt")


def test_a_later_checkpoint_of_the_same_step_replaces_the_earlier_one(tmp_path):
    save_checkpoint(tmp_path, 1, {"epoch": 0})
    for epoch in range(1, 9):  # the order of names would depend on their checksums
        save_checkpoint(tmp_path, 2, {"epoch": epoch})
        assert latest_checkpoint(tmp_path)["epoch"] == epoch
    assert len(list(tmp_path.iterdir())) == 2
