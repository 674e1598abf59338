"""Time of a training step relative to its matrix products.

One full step of the paper's model (regions + bi-GRU, D=1024, K=4, T=4): forward, loss, backward,
gradient clipping, AdamW, on 200 images x 5 captions with random inputs. Every matrix product of
such a step is recorded with its shapes and layout. The products alone are replayed in the same
run, alternating with the step. Times are minima over the repeats; bfloat16 is compared with its
own products. Peak memory is the largest resident size of the process during a float32 step.

    python benchmarks/train_step.py
    python benchmarks/train_step.py --images 32 --repeats 2
"""

import argparse
import contextlib
import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from timing import describe_machine, interleaved
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

from diverset import Model, ModelConfig, Padded, SetConfig, TextConfig
from diverset.losses import diversity, mmd, triplet
from diverset.runtime.memory import tune_glibc_malloc

WORDS, REGIONS, CAPTIONS = 10_000, 36, 5
PRODUCTS = {
    torch.ops.aten.mm.default,
    torch.ops.aten.addmm.default,
    torch.ops.aten.bmm.default,
    torch.ops.aten.baddbmm.default,
}
Layout = tuple[tuple[int, ...], tuple[int, ...], torch.dtype]


class ProductRecorder(TorchDispatchMode):
    """Records every matrix product: the operator and the layout of its tensors."""

    def __init__(self) -> None:
        super().__init__()
        self.products: list[tuple[Any, tuple[Layout, ...]]] = []

    def __torch_dispatch__(self, op: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if op in PRODUCTS:
            layouts = tuple((tuple(a.shape), a.stride(), a.dtype) for a in args if _is_tensor(a))
            self.products.append((op, layouts))
        return op(*args, **(kwargs or {}))


def _is_tensor(value: object) -> bool:
    return isinstance(value, Tensor)


def replayer(products: list[tuple[Any, tuple[Layout, ...]]]) -> Callable[[], None]:
    """A function that computes only the recorded products."""
    ready: dict[tuple[int, Layout], Tensor] = {}
    for _, layouts in products:
        for position, layout in enumerate(layouts):
            if (position, layout) not in ready:
                ready[position, layout] = random_like(*layout)
    calls = [(op, [ready[key] for key in enumerate(layouts)]) for op, layouts in products]

    def replay() -> None:
        for op, tensors in calls:
            op(*tensors)

    return replay


def random_like(shape: tuple[int, ...], stride: tuple[int, ...], dtype: torch.dtype) -> Tensor:
    """A random tensor of this layout; broadcast dimensions have stride 0."""
    last = sum((size - 1) * step for size, step in zip(shape, stride, strict=True))
    return torch.randn(last + 1).to(dtype).as_strided(shape, stride)


def flops(products: list[tuple[Any, tuple[Layout, ...]]]) -> float:
    total = 0.0
    for _, layouts in products:
        first, second = layouts[-2][0], layouts[-1][0]
        total += 2.0 * torch.Size(first).numel() * second[-1]
    return total


def make_batch(images: int) -> tuple[Padded, Padded, Tensor]:
    """Random regions, and captions as long as COCO's (about 13 with start and end)."""
    regions = torch.randn(images, REGIONS, 2048)
    lengths = (13 + 3 * torch.randn(images * CAPTIONS)).round().clamp(8, 40).long()
    captions = [torch.randint(4, WORDS, (int(length),)) for length in lengths]
    image_index = torch.arange(images).repeat_interleave(CAPTIONS)
    return Padded.from_lengths(regions, [REGIONS] * images), Padded.of(captions), image_index


def make_step(model: Model, images: int, bf16: bool) -> Callable[[], None]:
    regions, words, image_index = make_batch(images)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, weight_decay=1e-4, fused=True)

    def step() -> None:
        with torch.autocast("cpu", torch.bfloat16) if bf16 else contextlib.nullcontext():
            image_sets, text_sets = model(regions, words)
            scores = model.score(image_sets.elements, text_sets.elements)
            loss = triplet(scores, image_index, margin=0.2)
            loss = loss + 0.01 * mmd(image_sets.elements, text_sets.elements)
            loss = loss + 0.01 * (diversity(image_sets.slots) + diversity(text_sets.slots))
        optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()

    return step


def reset_peak() -> None:
    with contextlib.suppress(OSError):
        Path("/proc/self/clear_refs").write_text("5")


def peak_gib() -> float:
    if sys.platform != "linux":
        return float("nan")
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("VmHWM"):
            return int(line.split()[1]) / 2**20
    return float("nan")


def measure(model: Model, images: int, repeats: int, bf16: bool) -> tuple[float, float]:
    torch.manual_seed(0)
    step = make_step(model, images, bf16)
    step()
    reset_peak()
    step()
    peak = peak_gib()
    with ProductRecorder() as recorder:
        step()
    times = interleaved({"step": step, "products": replayer(recorder.products)}, repeats)
    ratio = times["step"] / times["products"]
    print(
        f"{'bfloat16' if bf16 else 'float32':9} step {times['step']:.2f} s, its "
        f"{len(recorder.products)} products ({flops(recorder.products) / 1e9:.0f} GFLOP) "
        f"{times['products']:.2f} s, ratio {ratio:.2f}, peak {peak:.2f} GiB"
    )
    return ratio, peak


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--images", type=int, default=200)
    parser.add_argument("--heads", type=int, default=1)
    parser.add_argument("--repeats", type=int, default=3)
    args = parser.parse_args()
    print(describe_machine())
    tune_glibc_malloc()  # as `diverset train` does
    torch.manual_seed(0)
    sets = SetConfig(heads=args.heads)
    text = TextConfig(vocabulary_size=WORDS)
    model = Model(ModelConfig(text=text, image_set=sets, text_set=sets)).train()
    ratio, peak = measure(model, args.images, args.repeats, bf16=False)
    bf16_ratio, _ = measure(model, args.images, args.repeats, bf16=True)
    result = {"ratio": ratio, "bf16_ratio": bf16_ratio, "peak_gib": peak}
    print(json.dumps({name: round(value, 3) for name, value in result.items()}))


if __name__ == "__main__":
    main()
