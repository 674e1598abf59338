"""A tiny untrained model and small images, for the tests of the library, search and server."""

from pathlib import Path

import numpy as np
import torch
from PIL import Image
from tiny_networks import small_cnn

from diverset import Model, Vocabulary

CAPTIONS = ["a dog runs", "a cat sleeps", "two birds on a tree", "a red boat", "snow"]


def make_model(folder: Path, seed: int = 0) -> str:
    torch.manual_seed(seed)
    model = Model(
        small_cnn(image_size=3, text_size=2),
        Vocabulary.build(CAPTIONS, min_count=1),
    )
    model.save_pretrained(folder)
    return str(folder)


def make_image(path: Path, seed: int, size: tuple[int, int] = (40, 30), **options) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    rng = np.random.default_rng(seed)
    coarse = rng.integers(0, 255, (4, 5, 3), dtype=np.uint8)
    Image.fromarray(coarse).resize(size).save(path, **options)
    return path


def make_images(folder: Path, count: int) -> Path:
    for number in range(count):
        make_image(folder / f"{number}.png", number)
    return folder
