"""Time of evaluation relative to the matrix product it contains.

Ranks in both directions of 5,000 images and 25,000 captions (COCO 5K), sets of four random
l2-normalised elements of width 1,024 in float32, against the bare product of all image elements by
all text elements, in blocks into one reused buffer. Both are measured alternately, and the fastest
run of each counts. Memory is the peak during ranking, in addition to the inputs.

The last line is JSON: {"ratio": ranking / product, "peak_gib": ...}. Targets at the default size:
a ratio of at most 1.3 and less than 3 GiB.
"""

from __future__ import annotations

import argparse
import json
import platform
import re
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from diverset.evaluation import ranks


def random_sets(count: int, size: int, dim: int, generator: torch.Generator) -> Tensor:
    sets = torch.randn(count, size, dim, generator=generator)
    return sets.div_(sets.norm(dim=-1, keepdim=True))


def bare_product(images: Tensor, texts: Tensor, rows: int = 4096, columns: int = 4096) -> None:
    image_elements, text_elements = images.flatten(0, 1), texts.flatten(0, 1)
    buffer = torch.empty(min(rows, len(image_elements)) * min(columns, len(text_elements)))
    for top in range(0, len(image_elements), rows):
        left_factor = image_elements[top : top + rows]
        for left in range(0, len(text_elements), columns):
            right_factor = text_elements[left : left + columns].T
            size = len(left_factor) * right_factor.shape[1]
            torch.mm(left_factor, right_factor, out=buffer[:size].view(len(left_factor), -1))


def seconds(work: Callable[[], object]) -> float:
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def memory(name: str) -> int:
    """Bytes of memory of this process: VmRSS now, VmHWM at the peak."""
    match = re.search(rf"{name}:\s+(\d+) kB", Path("/proc/self/status").read_text())
    if match is None:
        raise SystemExit(f"no {name} in /proc/self/status; this benchmark needs Linux")
    return int(match[1]) * 1024


def peak_above(work: Callable[[], object]) -> int:
    Path("/proc/self/clear_refs").write_text("5")  # resets the peak
    before = memory("VmRSS")
    work()
    return memory("VmHWM") - before


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--images", type=int, default=5000)
    parser.add_argument("--captions", type=int, default=5, help="captions per image")
    parser.add_argument("--elements", type=int, default=4)
    parser.add_argument("--dim", type=int, default=1024)
    parser.add_argument("--repeats", type=int, default=2)
    parser.add_argument("--threads", type=int, default=torch.get_num_threads())
    parser.add_argument("--similarity", default="smooth_chamfer")
    args = parser.parse_args()
    torch.set_num_threads(args.threads)

    generator = torch.Generator().manual_seed(0)
    images = random_sets(args.images, args.elements, args.dim, generator)
    texts = random_sets(args.images * args.captions, args.elements, args.dim, generator)
    image_index = np.repeat(np.arange(args.images), args.captions)
    print(
        f"{len(images)} x {len(texts)} sets of {args.elements} x {args.dim}, float32, "
        f"{args.similarity}; {platform.machine()}, {args.threads} threads, "
        f"torch {torch.__version__}"
    )

    ranking: list[float] = []
    product: list[float] = []
    peak = 0
    for repeat in range(args.repeats):
        product.append(seconds(lambda: bare_product(images, texts)))

        def rank() -> None:
            ranking.append(seconds(lambda: ranks(images, texts, image_index, args.similarity)))

        peak = max(peak, peak_above(rank))
        print(f"repeat {repeat + 1}: product {product[-1]:.2f} s, ranking {ranking[-1]:.2f} s")
    ratio = min(ranking) / min(product)
    print(json.dumps({"ratio": round(ratio, 3), "peak_gib": round(peak / 2**30, 3)}))


if __name__ == "__main__":
    main()
