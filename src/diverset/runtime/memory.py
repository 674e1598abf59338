"""Keep freed memory in the process while networks run on a CPU.

Every training step frees and allocates the same large tensors. glibc returns such blocks to the
operating system, so the next step pays a page fault per 4 KiB: a tenth of a training step, and
half of a bfloat16 forward pass. A single arena is used because per-thread arenas cannot keep large
blocks.
"""

import ctypes
import sys

M_TRIM_THRESHOLD, M_MMAP_THRESHOLD, M_ARENA_MAX = -1, -3, -8  # malloc.h


def tune_glibc_malloc() -> bool:
    """Configure glibc's malloc to keep freed memory; returns whether it did.

    The setting is process-wide, so only commands call it.
    """
    if not sys.platform.startswith("linux"):
        return False
    try:
        mallopt = ctypes.CDLL("libc.so.6").mallopt
    except (OSError, AttributeError):
        return False  # another C library; training is only a little slower
    options = {M_MMAP_THRESHOLD: 2**30, M_TRIM_THRESHOLD: 2**31 - 1, M_ARENA_MAX: 1}
    return all([mallopt(option, value) for option, value in options.items()])
