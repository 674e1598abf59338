"""Ambiguous images out of any caption dataset: collages whose captions describe one part each.

A collage shows n photographs of one split. Its captions are captions of these photographs, so for
n > 1 each of them describes a part of the image only. In the validation split every photograph is
in one collage, so no caption fits a second one, and all captions are used: the number of text
queries does not depend on n. In the training split the photographs are grouped n times, differently
each time, and a collage has five captions, taken from its photographs in turn: neither the number
of images nor that of captions depends on n.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import zip_longest
from pathlib import Path

import numpy as np
from PIL import Image, ImageOps

from diverset.data import CaptionDataset
from diverset.data.images import open_image
from diverset.errors import DataError
from diverset.runtime.files import write_durably
from diverset.runtime.progress import TaskCallback

TRAINING_CAPTIONS = 5  # per collage
SIDE = 384  # pixels
FILE, IMAGES, COMPLETE = "dataset_collages.json", "images", "images.complete"


@dataclass(frozen=True)
class Collage:
    """Indices of its photographs in the dataset, and of its captions."""

    photos: tuple[int, ...]
    captions: tuple[int, ...]


def group_photos(
    dataset: CaptionDataset, count: int, rounds: int = 1, captions: int | None = None, seed: int = 0
) -> Iterator[Collage]:
    """Collages of `count` photographs; each photograph is in one collage per round.

    `captions` limits the captions of a collage; they describe its photographs in turn. Photographs
    that do not fill the last collage of a round are left out.
    """
    if count < 1 or len(dataset) < count:
        raise DataError(
            f"a collage of {count} photographs needs at least 1 and at most the {len(dataset)} "
            f"images of {dataset.name}; choose another number"
        )
    random = np.random.default_rng((seed, count))
    for _ in range(rounds):
        order = random.permutation(len(dataset))
        for photos in order[: len(order) // count * count].reshape(-1, count):
            shuffled = [random.permutation(dataset.caption_indices(photo)) for photo in photos]
            in_turn = [row for turn in zip_longest(*shuffled) for row in turn if row is not None]
            yield Collage(tuple(map(int, photos)), tuple(map(int, in_turn[:captions])))


def write_captions(folder: Path, splits: dict[str, CaptionDataset], count: int) -> None:
    """Write the captions of all collages, in Karpathy's format, from which images are drawn."""
    entries = []
    for split, dataset in splits.items():
        rounds, captions = (count, TRAINING_CAPTIONS) if split == "train" else (1, None)
        for number, collage in enumerate(group_photos(dataset, count, rounds, captions)):
            entries.append(
                {
                    "filename": f"{split}-{number:06}.jpg",
                    "split": split,
                    "photos": [dataset.image_ids[photo] for photo in collage.photos],
                    "sentences": [{"raw": dataset.captions[row]} for row in collage.captions],
                }
            )
    folder.mkdir(parents=True, exist_ok=True)
    content = {"dataset": f"collages of {count}", "images": entries}
    write_durably(folder / FILE, json.dumps(content).encode())


def draw_images(
    folder: Path, splits: dict[str, CaptionDataset], progress: TaskCallback | None = None
) -> None:
    """Draw the images that `write_captions` lists; they are drawn again after an interruption."""
    if (folder / COMPLETE).exists():
        return
    paths = {
        (split, image_id): path
        for split, dataset in splits.items()
        for image_id, path in zip(dataset.image_ids, dataset.image_paths or (), strict=True)
    }
    entries = json.loads((folder / FILE).read_text(encoding="utf-8"))["images"]
    (folder / IMAGES).mkdir(exist_ok=True)
    for number, entry in enumerate(entries):
        tiles = [paths[entry["split"], photo] for photo in entry["photos"]]
        draw_collage(tiles).save(folder / IMAGES / entry["filename"], quality=90)
        if progress:
            progress(number + 1, len(entries))
    (folder / COMPLETE).touch()


def draw_collage(paths: list[Path]) -> Image.Image:
    """The photographs as squares in the rows of a grid."""
    rows, columns = grid_shape(len(paths))
    tile = SIDE // columns
    collage = Image.new("RGB", (tile * columns, tile * rows))
    for index, path in enumerate(paths):
        photo = ImageOps.fit(open_image(path, min_size=tile), (tile, tile))
        row, column = divmod(index, columns)
        collage.paste(photo, (column * tile, row * tile))
    return collage


def grid_shape(count: int) -> tuple[int, int]:
    """Rows and columns of the smallest nearly square grid.

    >>> grid_shape(1), grid_shape(2), grid_shape(4), grid_shape(9)
    ((1, 1), (1, 2), (2, 2), (3, 3))
    """
    columns = math.ceil(math.sqrt(count))
    return math.ceil(count / columns), columns
