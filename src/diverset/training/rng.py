"""The random states of all processes; dropout differs between them and resumes where it was."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
import torch.distributed as dist
from lightning_fabric import Fabric
from torch import Tensor

RngState = dict[str, Tensor]
"""State of one process: "cpu" and, if it computes on a GPU, "cuda"."""


def seed_process(seed: int, fabric: Fabric) -> None:
    """Seed this process, differently from the others."""
    torch.manual_seed(seed * 1000 + fabric.global_rank)


def gather_rng_states(fabric: Fabric) -> list[RngState]:
    """The states of all processes, ordered by rank; all processes have to call it."""
    own = {"cpu": torch.get_rng_state()}
    if fabric.device.type == "cuda":
        own["cuda"] = torch.cuda.get_rng_state(fabric.device)
    if fabric.world_size == 1:
        return [own]
    states: list[Any] = [None] * fabric.world_size
    dist.all_gather_object(states, own)
    return states


def restore_rng_state(states: Sequence[RngState], seed: int, fabric: Fabric) -> None:
    """The state of this process; a run that is resumed by another number of processes is seeded."""
    if len(states) != fabric.world_size:
        seed_process(seed, fabric)
        return
    own = states[fabric.global_rank]
    torch.set_rng_state(own["cpu"])
    if "cuda" in own and fabric.device.type == "cuda":
        torch.cuda.set_rng_state(own["cuda"], fabric.device)
