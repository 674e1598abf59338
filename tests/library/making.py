"""A tiny untrained model and small pictures, for the tests of the library, search and server."""

from pathlib import Path

import numpy as np
import torch
from PIL import Image

from diverset import ImageConfig, Model, ModelConfig, SetConfig, TextConfig, Vocabulary

WORDS = ["a dog runs", "a cat sleeps", "two birds on a tree", "a red boat", "snow"]


def make_model(folder: Path, seed: int = 0) -> str:
    torch.manual_seed(seed)
    sets = SetConfig(size=3, inner_width=8, iterations=2)
    model = Model(
        ModelConfig(
            dim=8,
            image=ImageConfig(
                kind="convolution",
                backbone="small_cnn",
                backbone_size=32,
                trained_blocks=-1,
                input_width=256,
            ),
            text=TextConfig(input_width=8),
            image_set=sets,
            text_set=SetConfig(size=2, inner_width=8, iterations=2),
        ),
        Vocabulary.build(WORDS, min_count=1),
    )
    model.save_pretrained(folder)
    return str(folder)


def make_picture(path: Path, seed: int, size: tuple[int, int] = (40, 30), **options) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    chance = np.random.default_rng(seed)
    coarse = chance.integers(0, 255, (4, 5, 3), dtype=np.uint8)
    Image.fromarray(coarse).resize(size).save(path, **options)
    return path


def make_pictures(folder: Path, count: int) -> Path:
    for number in range(count):
        make_picture(folder / f"{number}.png", number)
    return folder
