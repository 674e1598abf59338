"""Scoring speed of the cross-attention systems.

Scores random local features (36 regions, captions of 7 to 17 words, D = 1024) with every system
in float32 and with products in bfloat16. All times of a system are measured in one run:

- against its bare matrix products: the products that the module executes, recorded in one run and
  repeated on random operands of the same shapes into allocated buffers;
- against a loop in float32 that scores caption by caption against all images, as published
  evaluation codes do (`caption_loops.py`). Scores in float32 are compared with its scores first.
  The loop divided by the products bounds what any implementation of these products can reach.

The default is the shard of images and captions of the published SCAN. IMRAM is about 100 times
slower than SCAN; give it fewer. With one thread the clock counts CPU seconds, which other
programs disturb less.

The last line is JSON with the worst ratios. Target: at least 5 times faster than the loop.

    OMP_NUM_THREADS=1 python benchmarks/cross_attention.py
    OMP_NUM_THREADS=1 python benchmarks/cross_attention.py --systems imram --images 16 --texts 16
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable
from functools import partial
from typing import Any

import caption_loops
import torch
from timing import describe_machine, interleaved
from torch import Tensor
from torch.nn import functional as F
from torch.utils._python_dispatch import TorchDispatchMode

from diverset.cross_attention import Caan, Imram, Naaf, Sgraf, scan
from diverset.runtime.autocast import autocast

LINEAR = torch.ops.mkldnn._linear_pointwise.default
MAX_JUMPS = 1e-3
"""Share of NAAF's scores that may differ: they jump where a cosine equals the threshold."""
SYSTEMS: dict[str, Callable[[int], tuple[Any, caption_loops.CaptionLoop]]] = {
    "scan": lambda dim: (scan, caption_loops.scan_loop),
    "imram": lambda dim: with_loop(Imram(dim), caption_loops.imram_loop),
    "sgr": lambda dim: with_loop(Sgraf("sgr", dim), caption_loops.sgraf_loop),
    "saf": lambda dim: with_loop(Sgraf("saf", dim), caption_loops.sgraf_loop),
    "naaf": lambda dim: with_loop(Naaf(), caption_loops.naaf_loop),
    "caan": lambda dim: with_loop(Caan(dim), caption_loops.caan_loop),
}


def with_loop(module: Any, loop: Callable[[Any], caption_loops.CaptionLoop]) -> tuple[Any, Any]:
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
        key = place, arg.shape, arg.stride(), arg.dtype
        if key not in self._buffers:
            buffer = torch.empty_strided(arg.shape, arg.stride(), dtype=arg.dtype)
            self._buffers[key] = buffer.uniform_(-1, 1)
        return self._buffers[key]


def compare(name: str, args: argparse.Namespace) -> dict[str, tuple[float, float]]:
    """Per precision, the ratios of a system to its products and of the loop to it."""
    torch.manual_seed(0)
    score, caption_loop = SYSTEMS[name](args.dim)
    images = F.normalize(torch.randn(args.images, args.regions, args.dim), dim=-1)
    lengths = torch.randint(args.words - 5, args.words + 6, (args.texts,))
    mask = torch.arange(int(lengths.max())) < lengths[:, None]
    texts = F.normalize(torch.randn(*mask.shape, args.dim), dim=-1) * mask[..., None]
    local = images, torch.ones(images.shape[:2], dtype=torch.bool), texts, mask

    def run(precision: str) -> Tensor:
        with autocast("cpu", precision):
            return score(*local)

    contestants: dict[str, Callable[[], object]] = {
        "loop": lambda: caption_loops.loop_scores(caption_loop, images, texts, mask)
    }
    flops: dict[str, int] = {}
    expected = contestants["loop"]()
    with torch.no_grad():
        for precision in args.precisions:
            with RecordProducts() as record:
                scores = run(precision)
            differences = (scores - expected).abs()
            print(f"{name:6} {precision}: scores differ by up to {differences.max():.1e}")
            share = float((differences > 1e-5).float().mean())
            if precision == "float32" and share > (MAX_JUMPS if name == "naaf" else 0):
                raise SystemExit(f"{share:.2%} of the scores differ by more than 1e-5")
            flops[precision] = record.flops
            contestants[f"{precision} products"] = partial(repeat, record.products)
            contestants[precision] = partial(run, precision)
        clock = time.process_time if torch.get_num_threads() == 1 else time.perf_counter
        times = interleaved(contestants, args.repeats, clock)
    pairs, ratios = args.images * args.texts, {}
    for precision, count in flops.items():
        products, taken = times[f"{precision} products"], times[precision]
        ratios[precision] = taken / products, times["loop"] / taken
        print(
            f"{name:6} {precision}: {1e6 * taken / pairs:8.1f} us per pair, {count / pairs:12,.0f} "
            f"FLOPs, {taken / products:5.2f} x its products, {times['loop'] / taken:5.2f} x faster "
            f"than the loop (products alone {times['loop'] / products:5.2f} x)",
            flush=True,
        )
    return ratios


def repeat(products: list[Callable[[], Tensor]]) -> None:
    for product in products:
        product()


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--systems", nargs="+", choices=SYSTEMS, default=list(SYSTEMS))
    parser.add_argument("--images", type=int, default=128)
    parser.add_argument("--texts", type=int, default=128)
    parser.add_argument("--regions", type=int, default=36)
    parser.add_argument("--words", type=int, default=12, help="mean length of a caption")
    parser.add_argument("--dim", type=int, default=1024)
    parser.add_argument("--precisions", nargs="+", default=["float32", "bfloat16"])
    parser.add_argument("--repeats", type=int, default=2)
    args = parser.parse_args()
    print(describe_machine())
    ratios = {name: compare(name, args) for name in args.systems}
    worst = {
        precision: {
            "slowest_to_products": round(max(by[precision][0] for by in ratios.values()), 2),
            "least_faster_than_loop": round(min(by[precision][1] for by in ratios.values()), 2),
        }
        for precision in args.precisions
    }
    print(json.dumps(worst))


if __name__ == "__main__":
    main()
