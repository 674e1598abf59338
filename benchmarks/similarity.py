"""The cost of smooth-Chamfer relative to its matrix product.

Scores 1,000 x 5,000 random sets (K=4, D=1024) with `similarity_matrix`, interleaved with the bare
product (4000 x 1024)(1024 x 20000) into an allocated buffer, in float32 and in bfloat16. The ratio
is that of the minima over the repeats.

    python benchmarks/similarity.py
    python benchmarks/similarity.py --images 200 --texts 1000 --repeats 2
"""

import argparse
import json
import time
from collections.abc import Callable

import torch
from timing import describe_machine, interleaved
from torch.nn import functional as F

from diverset.similarity import similarity_matrix


def ratio(
    images: torch.Tensor, texts: torch.Tensor, repeats: int, clock: Callable[[], float]
) -> float:
    rows, columns = images.flatten(0, 1), texts.flatten(0, 1)
    product = torch.empty(len(rows), len(columns), dtype=rows.dtype)
    times = interleaved(
        {
            "product": lambda: torch.mm(rows, columns.T, out=product),
            "smooth-Chamfer": lambda: similarity_matrix(images, texts, "smooth_chamfer"),
        },
        repeats,
        clock,
    )
    quotient = times["smooth-Chamfer"] / times["product"]
    name = str(images.dtype).removeprefix("torch.")
    print(
        f"{name:9} product {times['product']:.3f} s, "
        f"smooth-Chamfer {times['smooth-Chamfer']:.3f} s, ratio {quotient:.2f}"
    )
    return quotient


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--images", type=int, default=1000)
    parser.add_argument("--texts", type=int, default=5000)
    parser.add_argument("--size", type=int, default=4, help="elements per set (K)")
    parser.add_argument("--dim", type=int, default=1024)
    parser.add_argument("--repeats", type=int, default=7)
    parser.add_argument("--cpu-time", action="store_true", help="for a machine that is not idle")
    args = parser.parse_args()
    print(describe_machine())
    torch.manual_seed(0)
    images = F.normalize(torch.randn(args.images, args.size, args.dim), dim=-1)
    texts = F.normalize(torch.randn(args.texts, args.size, args.dim), dim=-1)
    clock = time.process_time if args.cpu_time else time.perf_counter
    f32 = ratio(images, texts, args.repeats, clock)
    bf16 = ratio(images.bfloat16(), texts.bfloat16(), args.repeats, clock)
    print(json.dumps({"ratio": round(f32, 3), "bf16_ratio": round(bf16, 3)}))


if __name__ == "__main__":
    main()
