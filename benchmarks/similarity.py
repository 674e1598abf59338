"""What does smooth-Chamfer cost beyond the matrix product under it?

Scores 1,000 x 5,000 random sets (K=4, D=1024) with `similarity_matrix`, and times the bare
product (4000 x 1024)(1024 x 20000) into a ready buffer in the same run, turn by turn, in float32
and in bfloat16. Each ratio compares within one precision. Minimum over the repeats.

    python benchmarks/similarity.py
    python benchmarks/similarity.py --images 200 --texts 1000 --repeats 2
"""

import argparse
import json

import torch
from timing import describe_machine, interleaved
from torch.nn import functional as F

from diverset.similarity import similarity_matrix


def ratio(images: torch.Tensor, texts: torch.Tensor, repeats: int) -> float:
    rows, columns = images.flatten(0, 1), texts.flatten(0, 1)
    product = torch.empty(len(rows), len(columns), dtype=rows.dtype)
    times = interleaved(
        {
            "product": lambda: torch.mm(rows, columns.T, out=product),
            "smooth-Chamfer": lambda: similarity_matrix(images, texts, "smooth_chamfer"),
        },
        repeats,
    )
    found = times["smooth-Chamfer"] / times["product"]
    name = str(images.dtype).removeprefix("torch.")
    print(
        f"{name:9} product {times['product']:.3f} s, "
        f"smooth-Chamfer {times['smooth-Chamfer']:.3f} s, ratio {found:.2f}"
    )
    return found


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--images", type=int, default=1000)
    parser.add_argument("--texts", type=int, default=5000)
    parser.add_argument("--size", type=int, default=4, help="elements a set (K)")
    parser.add_argument("--dim", type=int, default=1024)
    parser.add_argument("--repeats", type=int, default=7)
    given = parser.parse_args()
    print(describe_machine())
    torch.manual_seed(0)
    images = F.normalize(torch.randn(given.images, given.size, given.dim), dim=-1)
    texts = F.normalize(torch.randn(given.texts, given.size, given.dim), dim=-1)
    found = ratio(images, texts, given.repeats)
    bf16 = ratio(images.bfloat16(), texts.bfloat16(), given.repeats)
    print(json.dumps({"ratio": round(found, 3), "bf16_ratio": round(bf16, 3)}))


if __name__ == "__main__":
    main()
