"""What does `Model.encode_images` cost on top of the bare backbone's forward?

Both run in bfloat16 with channels innermost on the same pictures, in turns, and the best turn of
each counts. The model gets pictures that are decoded already, as PIL images of 500 x 375, so its
turn holds resizing, the network, features and sets; the bare forward gets pixels. The last line is
JSON with the ratio of their rates. Without --model, weights of the heads are not trained, which
costs the same.

    python benchmarks/encoding.py --pictures 192 --threads 2
    python benchmarks/encoding.py --model photos
"""

import argparse
import json

import numpy as np
import torch
from PIL import Image
from timing import describe_machine, interleaved

from diverset import ImageConfig, Model, ModelConfig, SetConfig, TextConfig, Vocabulary, load
from diverset.building import load_pictures
from diverset.inputs import stacked

BATCH = 32


def make_model(backbone: str, trained: int) -> Model:
    image = ImageConfig(
        kind="convolution",
        backbone=backbone,
        input_width=1280,
        trained_blocks=trained,
        cache_below=trained > 0,
    )
    sets = SetConfig(inner_width=256)
    words = Vocabulary.build(["a picture"], min_count=1)
    return Model(ModelConfig(256, image, TextConfig(), sets, sets), words).eval()


def make_pictures(count: int) -> list[Image.Image]:
    chance = np.random.default_rng(0)
    return [
        Image.fromarray(chance.integers(0, 255, (12, 16, 3), dtype=np.uint8)).resize((500, 375))
        for _ in range(count)
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--model", default="", help="a shipped model or the folder of one")
    parser.add_argument("--backbone", default="efficientnet_lite2")
    parser.add_argument("--trained", type=int, default=0, help="upper blocks that are trained")
    parser.add_argument("--pictures", type=int, default=192)
    parser.add_argument("--threads", type=int, default=torch.get_num_threads())
    parser.add_argument("--repeats", type=int, default=3)
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    if options.model:
        model = load(options.model)
    else:
        model = make_model(options.backbone, options.trained)
    under = model.architecture.image
    backbone = load_pictures(under).for_inference()
    pictures = make_pictures(options.pictures)
    pixels = stacked(backbone.preprocess, pictures[:BATCH])
    turns = max(1, options.pictures // BATCH)

    def bare() -> None:
        with torch.inference_mode(), torch.autocast("cpu", torch.bfloat16):
            for _ in range(turns):
                backbone(pixels)

    def encode() -> None:
        model.encode_images(pictures[: turns * BATCH], precision="bfloat16")

    found = interleaved({"bare": bare, "encode": encode}, options.repeats)
    rates = {name: turns * BATCH / seconds for name, seconds in found.items()}
    print(describe_machine())
    print(
        f"{under.backbone}, {backbone.size} px: bare forward {rates['bare']:.1f}/s, "
        f"encode_images {rates['encode']:.1f}/s"
    )
    print(json.dumps({"ratio": round(rates["encode"] / rates["bare"], 3)}))


if __name__ == "__main__":
    main()
