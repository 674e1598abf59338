"""Smooth-Chamfer by the compiled kernel (runtime/kernel), if it was built for this machine."""

from __future__ import annotations

import ctypes
from ctypes import Structure, c_float, c_int32, c_int64, c_void_p

import torch

from diverset.runtime.compiled import load_kernel
from diverset.similarity.cosines import Cosines, Scores
from diverset.similarity.smooth_chamfer import check_alpha, fits_one_logarithm

DTYPES = (torch.float32, torch.bfloat16)


class _Shape(Structure):
    _fields_ = [
        ("images", c_int64),
        ("slots", c_int64),
        ("text_slots", c_int64),
        ("texts", c_int64),
        ("is_bfloat16", c_int32),
        ("alpha", c_float),
    ]


def compiled_smooth_chamfer(
    cosines: Cosines, alpha: float = 16.0, kernel: ctypes.CDLL | None = None
) -> Scores | None:
    """`fast_smooth_chamfer` in float32, also of cosines in bfloat16, in one pass over memory.

    None if there is no kernel for these numbers.
    """
    check_alpha(alpha)
    kernel = kernel or load_kernel()
    images, slots, text_slots, texts = cosines.shape
    if (
        kernel is None
        or cosines.device.type != "cpu"
        or cosines.dtype not in DTYPES
        or not cosines.is_contiguous()
        or not fits_one_logarithm(max(slots, text_slots), alpha)
    ):
        return None
    scores = torch.empty(images, texts)
    is_bfloat16 = cosines.dtype == torch.bfloat16
    shape = _Shape(images, slots, text_slots, texts, is_bfloat16, alpha)
    done = kernel.diverset_smooth_chamfer(
        ctypes.byref(shape),
        c_void_p(cosines.data_ptr()),
        c_void_p(scores.data_ptr()),
        torch.get_num_threads(),
    )
    return scores if done else None
