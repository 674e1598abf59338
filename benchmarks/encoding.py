"""What does `Model.encode_images` cost on top of the bare backbone's forward?

Both run in bfloat16 and channels-last on the same images, in turns; the best turn of each is used.
The model reads decoded PIL images of 500 x 375, so its turn includes resizing, the network,
features and sets; the bare forward reads pixels. The last line is JSON with the ratio of their
rates. Without --model the heads have random weights, which takes the same time.

    python benchmarks/encoding.py --images 192 --threads 2
    python benchmarks/encoding.py --model photos
"""

import argparse
import json

import numpy as np
import torch
from PIL import Image
from timing import describe_machine, interleaved

from diverset import ImageConfig, Model, ModelConfig, SetConfig, TextConfig, Vocabulary, load
from diverset.model.build import configured_backbone
from diverset.model.inputs import to_batch
from diverset.runtime.autocast import autocast

BATCH = 32


def make_model(backbone: str, trained: int) -> Model:
    image = ImageConfig(
        kind="convolution",
        backbone=backbone,
        input_width=1280,
        trainable_blocks=trained,
        cache_frozen_features=trained > 0,
    )
    sets = SetConfig(inner_width=256)
    words = Vocabulary.build(["an image"], min_count=1)
    return Model(ModelConfig(256, image, TextConfig(), sets, sets), words).eval()


def make_images(count: int) -> list[Image.Image]:
    rng = np.random.default_rng(0)
    return [
        Image.fromarray(rng.integers(0, 255, (12, 16, 3), dtype=np.uint8)).resize((500, 375))
        for _ in range(count)
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--model", help="a shipped model or the folder of one")
    parser.add_argument("--backbone", default="efficientnet_lite2")
    parser.add_argument("--trained", type=int, default=0, help="trainable blocks")
    parser.add_argument("--images", type=int, default=192)
    parser.add_argument("--threads", type=int, default=torch.get_num_threads())
    parser.add_argument("--repeats", type=int, default=3)
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    if options.model:
        model = load(options.model)
    else:
        model = make_model(options.backbone, options.trained)
    config = model.config.image
    backbone = configured_backbone(config).for_inference()
    images = make_images(options.images)
    pixels = to_batch(backbone.preprocess, images[:BATCH])
    turns = max(1, options.images // BATCH)

    def bare() -> None:
        with torch.inference_mode(), autocast("cpu", "bfloat16"):
            for _ in range(turns):
                backbone(pixels)

    def encode() -> None:
        model.encode_images(images[: turns * BATCH], precision="bfloat16")

    seconds = interleaved({"bare": bare, "encode": encode}, options.repeats)
    rates = {name: turns * BATCH / time for name, time in seconds.items()}
    print(describe_machine())
    print(
        f"{config.backbone}, {backbone.size} px: bare forward {rates['bare']:.1f}/s, "
        f"encode_images {rates['encode']:.1f}/s"
    )
    print(json.dumps({"ratio": round(rates["encode"] / rates["bare"], 3)}))


if __name__ == "__main__":
    main()
