"""Kernels that are compiled when diverset is installed (hatch_build.py), called through ctypes."""

from __future__ import annotations

import ctypes
from functools import cache
from pathlib import Path

INSTRUCTION_SETS = ("avx512vnni", "avx2", "baseline")  # the first that this processor has is used
FOLDER = Path(__file__).parent / "kernel"


@cache
def load_kernel(folder: Path = FOLDER) -> ctypes.CDLL | None:
    """The library for the best instruction set of this processor; None if it was not built.

    Import torch first if the kernel uses OpenMP, so that both share its threads.
    """
    for name in INSTRUCTION_SETS:
        file = folder / f"{name}.so"
        if file.exists():
            kernel = ctypes.CDLL(str(file))
            if kernel.diverset_supported():
                return kernel
    return None
