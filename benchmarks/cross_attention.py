"""Scoring speed of the cross-attention systems.

Scores random local features (36 regions, captions of 7 to 17 words, D = 1024, float32) with every
system and prints two ratios, each between times of one run:

- to its bare matrix products: the products that the module executes, recorded in one run and
  repeated on random operands of the same shapes into allocated buffers;
- to a loop that scores caption by caption against all images, as published evaluation codes do
  (`caption_loops.py`). Scores of both are compared first.

With one thread the clock counts CPU seconds, which other programs disturb less.

The last line is JSON with the worst of both. Target: at least 5 times faster than the loop.

    python benchmarks/cross_attention.py
    python benchmarks/cross_attention.py --systems scan naaf --images 64 --texts 32
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable
from typing import Any

import caption_loops
import torch
from timing import describe_machine, interleaved
from torch import Tensor
from torch.nn import functional as F
from torch.utils._python_dispatch import TorchDispatchMode

from diverset.cross_attention import Caan, Imram, Naaf, Sgraf, scan

LINEAR = torch.ops.mkldnn._linear_pointwise.default
SYSTEMS: dict[str, Callable[[int], tuple[Any, caption_loops.ScoreCaption]]] = {
    "scan": lambda dim: (scan, caption_loops.scan_caption),
    "imram": lambda dim: with_loop(Imram(dim), caption_loops.imram_caption),
    "sgr": lambda dim: with_loop(Sgraf("sgr", dim), caption_loops.sgraf_caption),
    "saf": lambda dim: with_loop(Sgraf("saf", dim), caption_loops.sgraf_caption),
    "naaf": lambda dim: with_loop(Naaf(), caption_loops.naaf_caption),
    "caan": lambda dim: with_loop(Caan(dim), caption_loops.caan_caption),
}


def with_loop(module: Any, loop: Callable[[Any], caption_loops.ScoreCaption]) -> tuple[Any, Any]:
    return module.eval(), loop(module)


class RecordProducts(TorchDispatchMode):
    """Records every matrix product, to be repeated without anything else."""

    NAMES = ("mm", "bmm", "addmm", "baddbmm", "_linear_pointwise")

    def __init__(self) -> None:
        super().__init__()
        self.products: list[Callable[[], Tensor]] = []
        self.flops = 0
        self._buffers: dict[Any, Tensor] = {}

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = func(*args, **(kwargs or {}))
        if func.overloadpacket.__name__ in self.NAMES:
            matrices = [arg for arg in args if isinstance(arg, Tensor) and arg.ndim > 1]
            self.flops += 2 * result.numel() * matrices[-1 if func is LINEAR else -2].shape[-1]
            self.products.append(self._repeat(func, args, result))
        return result

    def _repeat(self, func: Any, args: Any, result: Tensor) -> Callable[[], Tensor]:
        same = [self._random(place, arg) for place, arg in enumerate(args)]
        if func is LINEAR:
            return lambda: func(*same)
        out = self._random("out", result)
        return lambda: func.overloadpacket.out(*same, out=out)

    def _random(self, place: Any, arg: Any) -> Any:
        """One buffer per place in the call and memory layout, shared by all blocks."""
        if not isinstance(arg, Tensor):
            return arg
        key = place, arg.shape, arg.stride()
        if key not in self._buffers:
            self._buffers[key] = torch.empty_strided(*key[1:]).uniform_(-1, 1)
        return self._buffers[key]


def compare(name: str, args: argparse.Namespace) -> tuple[float, float]:
    """Ratios of one system to its products and of the loop to it."""
    torch.manual_seed(0)
    score, score_caption = SYSTEMS[name](args.dim)
    images = F.normalize(torch.randn(args.images, args.regions, args.dim), dim=-1)
    lengths = torch.randint(args.words - 5, args.words + 6, (args.texts,))
    mask = torch.arange(int(lengths.max())) < lengths[:, None]
    texts = F.normalize(torch.randn(*mask.shape, args.dim), dim=-1) * mask[..., None]
    local = images, torch.ones(images.shape[:2], dtype=torch.bool), texts, mask

    def loop() -> Tensor:
        return caption_loops.loop_scores(score_caption, images, texts, mask)

    with torch.no_grad():
        with RecordProducts() as record:
            scores = score(*local)
        torch.testing.assert_close(scores, loop(), rtol=0, atol=1e-5)
        contestants = {
            "products": lambda: [product() for product in record.products],
            "score": lambda: score(*local),
            "loop": loop,
        }
        clock = time.process_time if torch.get_num_threads() == 1 else time.perf_counter
        times = interleaved(contestants, args.repeats, clock)
    to_products, to_loop = times["score"] / times["products"], times["loop"] / times["score"]
    print(
        f"{name:6} {1e6 * times['score'] / len(scores) / len(texts):8.1f} us per pair, "
        f"{record.flops / len(scores) / len(texts):12,.0f} FLOPs, "
        f"{to_products:5.2f} x its products, {to_loop:5.2f} x faster than the loop"
    )
    return to_products, to_loop


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--systems", nargs="+", choices=SYSTEMS, default=list(SYSTEMS))
    parser.add_argument("--images", type=int, default=64)
    parser.add_argument("--texts", type=int, default=32)
    parser.add_argument("--regions", type=int, default=36)
    parser.add_argument("--words", type=int, default=12, help="mean length of a caption")
    parser.add_argument("--dim", type=int, default=1024)
    parser.add_argument("--repeats", type=int, default=2)
    args = parser.parse_args()
    print(describe_machine())
    ratios = {name: compare(name, args) for name in args.systems}
    worst = {
        "slowest_to_products": round(max(ratio[0] for ratio in ratios.values()), 2),
        "least_faster_than_loop": round(min(ratio[1] for ratio in ratios.values()), 2),
    }
    print(json.dumps(worst))


if __name__ == "__main__":
    main()
