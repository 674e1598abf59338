"""Decoding pictures in threads, a few batches ahead of the network that wants them.

A picture that cannot be read becomes the reason why. Networks are not run here.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path

import numpy as np
from torch import Tensor

from diverset.backbones.base import PictureBackbone
from diverset.data.images import open_picture
from diverset.data.preprocess import RandomResizedCrop
from diverset.errors import DataError

Loaded = list[tuple[int, Tensor | str]]
"""Place of a picture, and its bytes or why there are none."""


def decoded(
    backbone: PictureBackbone,
    files: Sequence[Path],
    batches: Iterator[tuple[int, np.ndarray]],
    crop: RandomResizedCrop | None,
    seeds: tuple[int, int],
    workers: int,
) -> Iterator[tuple[int, Loaded]]:
    """Batches in order, read by threads while the network is at work.

    Args:
        backbone: whose preprocessing is applied.
        files: all pictures.
        batches: numbers of batches, and the places of their pictures in `files`.
        crop: how a random view is cut; None for the plain one.
        seeds: seed and view, which with the place in `files` decide a random crop.
        workers: how many threads, and how many batches are read ahead.
    """

    def load(places: np.ndarray) -> Loaded:
        return [(int(place), _pixels(backbone, files, int(place), crop, seeds)) for place in places]

    waiting: deque[tuple[int, Future[Loaded]]] = deque()
    with ThreadPoolExecutor(workers) as pool:
        for number, places in batches:
            waiting.append((number, pool.submit(load, places)))
            if len(waiting) > workers:
                first, future = waiting.popleft()
                yield first, future.result()
        while waiting:
            first, future = waiting.popleft()
            yield first, future.result()


def _pixels(
    backbone: PictureBackbone,
    files: Sequence[Path],
    place: int,
    crop: RandomResizedCrop | None,
    seeds: tuple[int, int],
) -> Tensor | str:
    """Bytes of one picture, or why there are none."""
    preprocess = backbone.preprocess
    try:
        picture = open_picture(files[place], at_least=preprocess.wanted)
    except DataError as error:
        return str(error)
    if crop is None:
        return preprocess.pixels(picture)
    return crop.pixels(picture, preprocess, np.random.default_rng([*seeds, place]))
