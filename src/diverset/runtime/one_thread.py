"""How many threads torch uses for small work."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch


@contextmanager
def one_thread() -> Iterator[None]:
    """Run torch on the calling thread alone.

    The threads of an operation wait for each other actively. Where other programs use the cores,
    an operation of microseconds then takes as long as a time slice of the system.
    """
    before = torch.get_num_threads()
    torch.set_num_threads(1)  # of the calling thread; others keep theirs
    try:
        yield
    finally:
        torch.set_num_threads(before)
