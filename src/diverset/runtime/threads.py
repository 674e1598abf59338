"""How many threads torch and short computations use."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import torch

LOAD = Path("/proc/loadavg")  # Linux: "0.20 0.18 0.12 running/total last"


def free_threads(most: int) -> int:
    """A number of threads up to `most` and torch's own setting, without cores that are busy.

    A thread on a busy core makes all others wait for it, so it is better not started.
    """
    threads = min(most, torch.get_num_threads())
    if threads <= 1:
        return 1
    busy = running_threads() - 1
    return max(1, min(threads, torch.get_num_threads() - busy))


def running_threads() -> int:
    """Threads that are running or waiting for a core now, this one among them; 1 if unknown."""
    try:
        file = os.open(LOAD, os.O_RDONLY)  # without Python's buffers: a search takes 100 us
        try:
            return int(os.read(file, 100).split()[3].partition(b"/")[0])
        finally:
            os.close(file)
    except (OSError, ValueError, IndexError):
        return 1


@contextmanager
def torch_threads(count: int) -> Iterator[None]:
    """Let torch use this number of threads for what the calling thread computes.

    One is best for small work: the threads of an operation wait for each other actively, so where
    other programs use the cores, an operation of microseconds takes a time slice of the system.
    Other threads keep their number, but one that starts meanwhile gets this one.
    """
    before = torch.get_num_threads()
    torch.set_num_threads(count)
    try:
        yield
    finally:
        torch.set_num_threads(before)
