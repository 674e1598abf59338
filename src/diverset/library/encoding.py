"""Pixels to sets, in the way that is fastest here and that evaluation uses too."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Generator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import TypeVar

import torch
from PIL.Image import Image
from torch import Tensor

from diverset.data.images import open_picture
from diverset.data.preprocess import Preprocess
from diverset.index.base import Sets
from diverset.model import Model

MOST = 8  # workers, each with half a gigabyte; on more cores each uses several
Item = TypeVar("Item")
Made = TypeVar("Made")


class PictureEncoder:
    """The picture half of a model.

    Args:
        model: one with a network under its picture encoder.
        precision: of a frozen network, "bfloat16" or "float32"; by default what is fast here.
    """

    def __init__(self, model: Model, precision: str = "") -> None:
        self.model, self.network = model, model.picture_network()
        self.precision = precision or ("bfloat16" if has_bfloat16() else "float32")

    @property
    def preprocess(self) -> Preprocess:
        return self.network.preprocess

    def pixels(self, picture: Image) -> Tensor:
        """A picture in RGB as the bytes that `encode` takes."""
        return self.preprocess.pixels(picture)

    def open(self, path: str | Path, data: bytes | None = None) -> Tensor:
        """The bytes of a file."""
        return self.pixels(open_picture(path, at_least=self.preprocess.wanted, data=data))

    def inputs(self, pixels: Sequence[Tensor]) -> Tensor:
        """What the model's picture encoder reads: maps of what is frozen, or pixels."""
        batch = self.preprocess.batch(pixels, self.model.device)
        if self.network is self.model.image_encoder.backbone:
            return batch
        low = self.precision == "bfloat16"
        with torch.inference_mode(), torch.autocast(batch.device.type, torch.bfloat16, low):
            maps: Tensor = self.network(batch)
        return maps.float().clone()

    def encode(self, pixels: Sequence[Tensor]) -> Sets:
        """The sets of some pictures."""
        return self.model.encode_images(self.inputs(pixels)).float().cpu().numpy()


def has_bfloat16() -> bool:
    """Whether this processor multiplies bfloat16 itself; else it would be slower than float32."""
    names = ("_is_avx512_bf16_supported", "_is_amx_tile_supported")
    return any(getattr(torch.cpu, name, bool)() for name in names)


def side_by_side(
    work: Callable[[Item], Made], items: Sequence[Item], workers: int = 0
) -> Generator[Made, None, None]:
    """What `work` makes of items, in their order, by threads that each have their own cores.

    One network on all cores has to wait at every layer for the core that was reading a picture;
    networks on a core each do not.

    Args:
        work: reads and encodes something.
        items: they are given out a few ahead of what is taken.
        workers: threads; 0 for one a core, up to eight.
    """
    cores = torch.get_num_threads()
    workers = workers or min(cores, MOST)
    share = max(1, cores // workers)
    waiting: deque[Future[Made]] = deque()
    try:
        with ThreadPoolExecutor(workers, "encoder", torch.set_num_threads, (share,)) as pool:
            try:
                for one in items:
                    waiting.append(pool.submit(work, one))
                    if len(waiting) > 2 * workers:
                        yield waiting.popleft().result()
                while waiting:
                    yield waiting.popleft().result()
            finally:
                pool.shutdown(wait=True, cancel_futures=True)
    finally:
        torch.set_num_threads(cores)
