"""Keeping freed memory in the process while networks run on a CPU.

A training step frees and asks again for the same large tensors. glibc hands such blocks back to
the system, and the next step pays a page fault for every 4 KiB of them: a tenth of a step, and half
of a network's forward in bfloat16. Threads share one arena, since those of threads cannot keep
large blocks.
"""

import ctypes
import sys

M_TRIM_THRESHOLD, M_MMAP_THRESHOLD, M_ARENA_MAX = -1, -3, -8  # malloc.h
LARGEST = 2**31 - 1


def keep_freed_memory() -> bool:
    """Tell malloc to keep what is freed, where malloc is glibc's; whether it was told."""
    if not sys.platform.startswith("linux"):
        return False
    try:
        mallopt = ctypes.CDLL("libc.so.6").mallopt
    except (OSError, AttributeError):
        return False  # another C library; training only is a little slower
    wanted = ((M_MMAP_THRESHOLD, 2**30), (M_TRIM_THRESHOLD, LARGEST), (M_ARENA_MAX, 1))
    return all([mallopt(*one) for one in wanted])
