"""Timing on a noisy machine: contestants take turns, and the best turn of each counts."""

import platform
import time
from collections.abc import Callable

import torch


def interleaved(
    contestants: dict[str, Callable[[], object]],
    repeats: int,
    clock: Callable[[], float] = time.perf_counter,
) -> dict[str, float]:
    """Seconds of each contestant's best turn, after one turn that does not count."""
    best = dict.fromkeys(contestants, float("inf"))
    for turn in range(repeats + 1):
        for name, run in contestants.items():
            start = clock()
            run()
            taken = clock() - start
            if turn:
                best[name] = min(best[name], taken)
    return best


def describe_machine() -> str:
    """One line to print above the numbers."""
    accelerator = torch.cuda.get_device_name() if torch.cuda.is_available() else "no GPU"
    return (
        f"{platform.machine()}, {torch.get_num_threads()} threads, {accelerator}, "
        f"torch {torch.__version__}, Python {platform.python_version()}"
    )
