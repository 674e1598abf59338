"""How much does evaluation cost beyond the matrix product under it?

Ranks both ways of 5,000 images and 25,000 captions (COCO 5K), sets of four elements of width
1,024 in float32, random and l2-normalised, beside the bare product of the same size: all image
elements by all text elements, in blocks into one buffer that is used again. Both are measured in
turns, and the fastest of each counts. Memory is the peak above the inputs, during ranking.

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
    ours, theirs = images.flatten(0, 1), texts.flatten(0, 1)
    buffer = torch.empty(min(rows, len(ours)) * min(columns, len(theirs)))
    for top in range(0, len(ours), rows):
        left_factor = ours[top : top + rows]
        for left in range(0, len(theirs), columns):
            right_factor = theirs[left : left + columns].T
            size = len(left_factor) * right_factor.shape[1]
            torch.mm(left_factor, right_factor, out=buffer[:size].view(len(left_factor), -1))


def seconds(work: Callable[[], object]) -> float:
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def memory(name: str) -> int:
    """Bytes, of a line of this process's status: VmRSS now, VmHWM at the peak."""
    found = re.search(rf"{name}:\s+(\d+) kB", Path("/proc/self/status").read_text())
    if found is None:
        raise SystemExit(f"no {name} in /proc/self/status; this benchmark needs Linux")
    return int(found[1]) * 1024


def peak_above(work: Callable[[], object]) -> int:
    Path("/proc/self/clear_refs").write_text("5")  # forget the peak so far
    before = memory("VmRSS")
    work()
    return memory("VmHWM") - before


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--images", type=int, default=5000)
    parser.add_argument("--captions", type=int, default=5, help="captions an image")
    parser.add_argument("--elements", type=int, default=4)
    parser.add_argument("--dim", type=int, default=1024)
    parser.add_argument("--repeats", type=int, default=2)
    parser.add_argument("--threads", type=int, default=torch.get_num_threads())
    parser.add_argument("--similarity", default="smooth_chamfer")
    chosen = parser.parse_args()
    torch.set_num_threads(chosen.threads)

    generator = torch.Generator().manual_seed(0)
    images = random_sets(chosen.images, chosen.elements, chosen.dim, generator)
    texts = random_sets(chosen.images * chosen.captions, chosen.elements, chosen.dim, generator)
    owners = np.repeat(np.arange(chosen.images), chosen.captions)
    print(
        f"{len(images)} x {len(texts)} sets of {chosen.elements} x {chosen.dim}, float32, "
        f"{chosen.similarity}; {platform.machine()}, {chosen.threads} threads, "
        f"torch {torch.__version__}"
    )

    ranking: list[float] = []
    product: list[float] = []
    peak = 0
    for turn in range(chosen.repeats):
        product.append(seconds(lambda: bare_product(images, texts)))

        def rank() -> None:
            ranking.append(seconds(lambda: ranks(images, texts, owners, chosen.similarity)))

        peak = max(peak, peak_above(rank))
        print(f"turn {turn + 1}: product {product[-1]:.2f} s, ranking {ranking[-1]:.2f} s")
    ratio = min(ranking) / min(product)
    print(json.dumps({"ratio": round(ratio, 3), "peak_gib": round(peak / 2**30, 3)}))


if __name__ == "__main__":
    main()
