"""From images to sets, at the precision that is fastest on this machine."""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from functools import cached_property, partial
from pathlib import Path
from typing import TypeVar

import torch
from jaxtyping import Float
from PIL.Image import Image
from torch import Tensor

from diverset.data.preprocess import Preprocess
from diverset.index.set_store import Sets
from diverset.model import Model
from diverset.runtime.autocast import fastest_precision
from diverset.runtime.prefetch import prefetch

MAX_WORKERS = 8  # half a gigabyte each; with more cores each worker uses several
Item = TypeVar("Item")
Result = TypeVar("Result")


class LibraryEncoder:
    """The image side of a model, whose backbone is loaded on first use.

    Everything runs at the fastest precision; sets are normalised and stored in float32.
    """

    def __init__(self, model: Model) -> None:
        self.model, self.precision = model, fastest_precision()

    @cached_property
    def preprocess(self) -> Preprocess:
        return self.model.image_backbone().preprocess

    def open(self, path: str | Path, data: bytes | None = None) -> Image:
        """An image at the resolution that the model needs, from a file or from its bytes."""
        return self.preprocess.open(path, data)

    def encode(self, pixels: Sequence[Tensor]) -> Sets:
        """The sets of images, given as the pixels that `preprocess` makes of them."""
        batch = self.preprocess.batch(pixels, self.model.device)
        inputs = self.model.image_inputs(batch, self.precision)
        return self.model.encode_images(inputs, precision=self.precision).float().cpu().numpy()

    def element_maps(self, image: Image) -> Float[Tensor, "slots rows columns"]:
        """Which part of an image each element represents; see `Model.element_maps`."""
        return self.model.element_maps(image, self.precision)


def parallel_map(
    work: Callable[[Item], Result], items: Sequence[Item], workers: int | None = None
) -> Generator[Result, None, None]:
    """Results in the order of the items, computed by threads that each have their own cores.

    One network on all cores waits at every layer for the core that is busy reading an image;
    networks on one core each do not.

    `workers` are by default one per core, at most eight.
    """
    cores = torch.get_num_threads()
    workers = workers or min(cores, MAX_WORKERS)
    set_threads = partial(torch.set_num_threads, max(1, cores // workers))
    try:
        yield from prefetch(work, items, workers, 2 * workers, set_threads)
    finally:
        torch.set_num_threads(cores)
