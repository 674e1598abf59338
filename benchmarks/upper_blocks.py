"""What does a training step cost when upper blocks are trained, over cached states and over all?

Batches of Flickr8k's shape: 128 pictures with 5 captions of 9 to 19 tokens each, D = 256, sets of
four, InfoNCE, AdamW. States and ids are random: the arithmetic is the same. Seconds are CPU seconds
of this process, the best of several steps, so that other programs count less. It ends with JSON.

    python benchmarks/upper_blocks.py --text 0 1 2 6 --threads 1
"""

import argparse
import json
import time

import numpy as np
import torch
from timing import describe_machine

from diverset import ImageConfig, Model, ModelConfig, SetConfig, TextConfig
from diverset.losses import contrastive
from diverset.training.memory import keep_freed_memory
from diverset.types import Maps, Padded

STEPS_AN_EPOCH = 47  # 6,000 pictures in batches of 128


def make_model(image_blocks: int, text_blocks: int, cached: bool) -> Model:
    sets = SetConfig(inner_width=256)
    image = ImageConfig(
        kind="convolution",
        backbone="efficientnet_lite2",
        input_width=1280,
        trained_blocks=image_blocks,
        cache_below=cached and image_blocks > 0,
    )
    text = TextConfig(
        kind="transformer",
        backbone="minilm",
        input_width=384,
        pooling="average",
        trained_blocks=text_blocks,
        cache_below=cached and text_blocks > 0,
    )
    return Model(ModelConfig(256, image, text, sets, sets))


def make_batch(model: Model, pictures: int, captions: int) -> tuple[Maps, Padded]:
    chance = np.random.default_rng(0)
    lengths = chance.integers(9, 20, pictures * captions)
    shape = (len(lengths), int(lengths.max()))
    text, image = model.architecture.text, model.architecture.image
    values = torch.randn(*shape, 384) if text.is_cached else torch.randint(1000, 20000, shape)
    channels = model.picture_network().width if image.cache_below else 1280
    maps = torch.randn(pictures, 9, 9, channels).permute(0, 3, 1, 2)
    return Maps(maps), Padded.from_lengths(values, torch.from_numpy(lengths))


def seconds(model: Model, options: argparse.Namespace) -> float:
    images, texts = make_batch(model, options.pictures, 5)
    owners = torch.arange(options.pictures).repeat_interleave(5)
    weights = [weight for weight in model.parameters() if weight.requires_grad]
    optimizer = torch.optim.AdamW(weights, fused=True)
    model.train()

    def step() -> None:
        with torch.autocast("cpu", torch.bfloat16, enabled=options.precision == "bfloat16"):
            image_sets, text_sets = model(images, texts)
            loss = contrastive(model.score(image_sets.elements, text_sets.elements), owners)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()

    taken = []
    for _ in range(options.repeats + 1):
        start = time.process_time()
        step()
        taken.append(time.process_time() - start)
    return min(taken[1:])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--text", type=int, nargs="+", default=[0, 1, 2, 6])
    parser.add_argument("--image", type=int, default=0, help="trained blocks of EfficientNet-Lite2")
    parser.add_argument("--whole", action="store_true", help="run the text network from its ids")
    parser.add_argument("--precision", default="bfloat16", choices=["bfloat16", "float32"])
    parser.add_argument("--pictures", type=int, default=128)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--repeats", type=int, default=2)
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    keep_freed_memory()
    print(describe_machine())
    found = {}
    for blocks in options.text:
        torch.manual_seed(0)
        model = make_model(options.image, blocks, cached=not options.whole)
        found[str(blocks)] = round(seconds(model, options), 2)
        print(
            f"{options.precision}, {blocks} text blocks, {options.image} picture blocks, "
            f"{'whole network' if options.whole else 'cached below'}: {found[str(blocks)]} CPU "
            f"seconds a step, {found[str(blocks)] * STEPS_AN_EPOCH / 60:.1f} minutes an epoch"
        )
    print(json.dumps({"seconds a step by text blocks": found}))


if __name__ == "__main__":
    main()
