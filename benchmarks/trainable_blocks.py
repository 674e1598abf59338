"""What does a training step with trainable blocks cost, with and without cached features?

Batches as in Flickr8k: 128 images with 5 captions of 9 to 19 tokens each, D = 256, sets of four,
InfoNCE, AdamW. States and ids are random, which does not change the cost. Reports CPU seconds of
this process, the best of several steps, to reduce the effect of other programs; ends with JSON.

    python benchmarks/trainable_blocks.py --text 0 1 2 6 --threads 1
"""

import argparse
import json
import time

import numpy as np
import torch
from timing import describe_machine

from diverset import ImageConfig, Model, ModelConfig, SetConfig, TextConfig
from diverset.losses import contrastive
from diverset.runtime.autocast import PRECISIONS, autocast
from diverset.runtime.memory import tune_glibc_malloc
from diverset.types import Maps, Padded

STEPS_PER_EPOCH = 47  # 6,000 images in batches of 128


def make_model(image_blocks: int, text_blocks: int, cached: bool) -> Model:
    sets = SetConfig(inner_width=256)
    image = ImageConfig(
        kind="convolution",
        backbone="efficientnet_lite2",
        input_width=1280,
        trainable_blocks=image_blocks,
        cache_frozen_features=cached and image_blocks > 0,
    )
    text = TextConfig(
        kind="transformer",
        backbone="minilm",
        input_width=384,
        pooling="average",
        trainable_blocks=text_blocks,
        cache_frozen_features=cached and text_blocks > 0,
    )
    return Model(ModelConfig(256, image, text, sets, sets))


def make_batch(model: Model, images: int, captions: int) -> tuple[Maps, Padded]:
    rng = np.random.default_rng(0)
    lengths = rng.integers(9, 20, images * captions)
    shape = (len(lengths), int(lengths.max()))
    text, image = model.config.text, model.config.image
    values = torch.randn(*shape, 384) if text.is_cached else torch.randint(1000, 20000, shape)
    channels = model.image_backbone().width if image.cache_frozen_features else 1280
    maps = torch.randn(images, 9, 9, channels).permute(0, 3, 1, 2)
    return Maps(maps), Padded.from_lengths(values, torch.from_numpy(lengths))


def seconds(model: Model, options: argparse.Namespace) -> float:
    images, texts = make_batch(model, options.images, 5)
    image_index = torch.arange(options.images).repeat_interleave(5)
    weights = [weight for weight in model.parameters() if weight.requires_grad]
    optimizer = torch.optim.AdamW(weights, fused=True)
    model.train()

    def step() -> None:
        with autocast("cpu", options.precision):
            image_sets, text_sets = model(images, texts)
            loss = contrastive(model.score(image_sets.elements, text_sets.elements), image_index)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()

    times = []
    for _ in range(options.repeats + 1):
        start = time.process_time()
        step()
        times.append(time.process_time() - start)
    return min(times[1:])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--text", type=int, nargs="+", default=[0, 1, 2, 6])
    parser.add_argument("--image", type=int, default=0, help="blocks of EfficientNet-Lite2")
    parser.add_argument("--whole", action="store_true", help="run the whole text backbone")
    parser.add_argument("--precision", default="bfloat16", choices=PRECISIONS)
    parser.add_argument("--images", type=int, default=128)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--repeats", type=int, default=2)
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    tune_glibc_malloc()
    print(describe_machine())
    results = {}
    for blocks in options.text:
        torch.manual_seed(0)
        model = make_model(options.image, blocks, cached=not options.whole)
        results[str(blocks)] = round(seconds(model, options), 2)
        print(
            f"{options.precision}, {blocks} text blocks, {options.image} image blocks, "
            f"{'whole network' if options.whole else 'cached features'}: {results[str(blocks)]} "
            f"CPU s per step, {results[str(blocks)] * STEPS_PER_EPOCH / 60:.1f} min per epoch"
        )
    print(json.dumps({"seconds per step by text blocks": results}))


if __name__ == "__main__":
    main()
