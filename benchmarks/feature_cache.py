"""What does the feature cache cost on top of the backbone's bare forward?

Prints the images per second of both, measured in turns in one run, and their ratio. Images are
generated JPEGs of 500 x 375; decoding them and writing the maps is what the cache adds.

    python benchmarks/feature_cache.py --backbone efficientnet_lite2 --images 192
"""

import argparse
import tempfile
import time
from pathlib import Path

import numpy as np
import torch
from PIL import Image

from diverset.backbones import ImageBackbone, cache_images, load_image_backbone
from diverset.runtime.autocast import PRECISIONS, autocast

BATCH = 32


def make_images(folder: Path, count: int) -> list[Path]:
    generator = np.random.default_rng(0)
    paths = []
    for number in range(count):
        coarse = generator.integers(0, 255, (12, 16, 3), dtype=np.uint8)
        paths.append(folder / f"{number}.jpg")
        Image.fromarray(coarse).resize((500, 375)).save(paths[-1], quality=90)
    return paths


def bare_rate(backbone: ImageBackbone, count: int, precision: str) -> float:
    network = backbone.for_inference()
    pixels = torch.randn(BATCH, 3, backbone.size, backbone.size)
    pixels = pixels.contiguous(memory_format=torch.channels_last)
    with (
        torch.inference_mode(),
        autocast("cpu", precision),
    ):
        network(pixels)
        start = time.perf_counter()
        for _ in range(count // BATCH):
            network(pixels)
    return count // BATCH * BATCH / (time.perf_counter() - start)


def cache_rate(backbone: ImageBackbone, paths: list[Path], precision: str) -> float:
    with tempfile.TemporaryDirectory() as folder:
        start = time.perf_counter()
        cache_images(backbone, paths, folder, precision=precision, batch_size=BATCH)
        return len(paths) / (time.perf_counter() - start)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--backbone", default="efficientnet_lite2")
    parser.add_argument("--images", type=int, default=192)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--precision", default="bfloat16", choices=PRECISIONS)
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    backbone = load_image_backbone(options.backbone)
    with tempfile.TemporaryDirectory() as folder:
        paths = make_images(Path(folder), options.images)
        rates = np.array(
            [
                (
                    bare_rate(backbone, options.images, options.precision),
                    cache_rate(backbone, paths, options.precision),
                )
                for _ in range(options.rounds)
            ]
        )
    bare, cached = np.median(rates, axis=0)
    print(
        f"{options.backbone}, {backbone.size} px, {options.precision}, {options.threads} threads: "
        f"bare forward {bare:.1f}/s, into the cache {cached:.1f}/s, ratio {cached / bare:.2f}"
    )


if __name__ == "__main__":
    main()
