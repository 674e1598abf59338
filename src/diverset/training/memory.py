"""Keeping freed memory in the process while training on a CPU.

A training step frees and asks again for the same large tensors. glibc hands such blocks back to
the system, and the next step pays a page fault for every 4 KiB of them: a tenth of a step.
"""

import ctypes
import sys

M_TRIM_THRESHOLD, M_MMAP_THRESHOLD = -1, -3  # malloc.h
LARGEST = 2**31 - 1


def keep_freed_memory() -> bool:
    """Tell malloc to keep what is freed, where malloc is glibc's; whether it was told."""
    if not sys.platform.startswith("linux"):
        return False
    try:
        mallopt = ctypes.CDLL("libc.so.6").mallopt
    except (OSError, AttributeError):
        return False  # another C library; training only is a little slower
    return bool(mallopt(M_MMAP_THRESHOLD, 2**30) and mallopt(M_TRIM_THRESHOLD, LARGEST))
