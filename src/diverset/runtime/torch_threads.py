"""How many threads torch uses."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch


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
