"""What a running server holds: the library, its searcher, numbers for Prometheus, small caches."""

from __future__ import annotations

import io
import itertools
import threading
import time
from contextlib import nullcontext
from functools import lru_cache

import numpy as np
from PIL import Image
from prometheus_client import CollectorRegistry, Gauge
from torch import Tensor

from diverset.data.preprocess import Preprocess
from diverset.errors import NotFoundError, OptionError, RebuiltError
from diverset.index.base import Records
from diverset.library.catalog import INDEXED, SKIPPED, File
from diverset.library.indexing import is_below
from diverset.library.library import Library
from diverset.overlays import COLOURS, mask_of
from diverset.search.drawing import picture_maps
from diverset.search.query import Asked
from diverset.search.searcher import Answer, Elements, Searcher
from diverset.search.thumbnails import thumbnail
from diverset.serve.cache import Cache
from diverset.serve.schemas import About, Job, Status

KEPT = 64 * 2**20  # bytes of thumbnails and maps, some 10 KB each
LAYER = 256  # pixels of a map's longer side; it is smooth, so browsers may enlarge it
NO_PICTURE = "there is no such picture in the library; GET /items lists them"
LOOK = 1.0  # seconds between two looks at whether the library is still the same
DECODERS = 2  # pictures of many megapixels that are unpacked at a time, with 0.5 GB each


class State:
    """Made once; `load` brings in what takes time."""

    def __init__(self, library: Library) -> None:
        self.library, self.searcher = library, Searcher(library)
        self.ready = threading.Event()
        self.outdated = False
        self._looked = time.monotonic()
        self._model = threading.Lock()  # networks run one at a time: they use all cores anyway
        self.registry = CollectorRegistry()
        pictures = Gauge("diverset_pictures", "Indexed pictures", registry=self.registry)
        pictures.set_function(lambda: float(library.catalog.count(INDEXED)))
        self.words = lru_cache(1000)(self._words)
        self._decoding = threading.Semaphore(DECODERS)
        self._kept = Cache(KEPT)

    def load(self) -> None:
        """Load the model and read the index once, so that the first question is not a slow one."""
        with self._model:
            self.library.encoder  # noqa: B018 - made by being asked for
            self.searcher.of_words(["ready"])
        if self.library.pictures.count():
            some = self.library.pictures.sample(1)
            self.library.pictures.search(some, k=1)
        self.ready.set()

    def check(self) -> None:
        """Raise where the library is not the one that was opened; looks once a second."""
        if not self.outdated and time.monotonic() - self._looked > LOOK:
            self._looked = time.monotonic()
            try:
                self.library.check_current()
            except RebuiltError:
                self.outdated = True
        if self.outdated:
            raise RebuiltError("the library was rebuilt or removed; restart diverset serve")

    def status(self) -> Status:
        catalog = self.library.catalog
        job = self.library.job()
        return Status(
            pictures=catalog.count(INDEXED),
            texts=sum(table.items for table in catalog.tables().values()),
            skipped=catalog.count(SKIPPED),
            folders=[str(root) for root in catalog.roots],
            model=self.library.about["fingerprint"],
            indexing=Job(done=job["done"], total=job["total"], rate=job["rate"]) if job else None,
        )

    def known(self, name: str) -> File:
        """An indexed picture under an indexed folder; no other file is read."""
        file = None if "\0" in name else self.library.indexed(name)
        if file is None or not is_below(name, self.library.catalog.roots):
            raise NotFoundError(NO_PICTURE)
        return file

    def _stored(self, name: str) -> Records:
        """What the index has of a known picture, which another process may just have dropped."""
        stored = self.library.pictures.get([self.known(name).path])
        if not stored.ids:
            raise NotFoundError(NO_PICTURE)
        return stored

    def picture(self, name: str) -> Elements:
        """The stored set of a picture."""
        found: Elements = self._stored(name).sets[0]
        return found

    def about(self, name: str) -> About:
        """What is known of a picture, whatever is asked."""
        stored = self._stored(name)
        return About(id=name, parts=stored.sets.shape[1], metadata=dict(stored.metadata[0]))

    def place(self, element: int) -> int:
        """Where an element is in its set, which people count from 1."""
        slots = self.library.about["image_slots"]
        if not 1 <= element <= slots:
            raise OptionError(f"element is {element}; a picture has 1 to {slots}")
        return element - 1

    def search(self, asked: Asked, picture: Elements | None, rule: str = "similarity") -> Answer:
        with self._model:
            return self.searcher.search(asked, picture, rule)

    def listed(self, offset: int, limit: int) -> list[str]:
        """Some of the indexed pictures, by path."""
        files = self.library.catalog.files(INDEXED)
        return [one.path for one in itertools.islice(files, offset, offset + limit)]

    def uploaded(self, data: bytes) -> Elements:
        pixels = self._pixels("the upload", data)
        with self._model:
            encoded: Elements = self.library.encoder.encode([pixels])[0]
        return encoded

    def _words(self, words: str) -> Elements:
        with self._model:
            found: Elements = self.searcher.of_words([words])[0]
        return found

    def _pixels(self, path: str, data: bytes | None = None) -> Tensor:
        """Decoded before its turn at the network, so that nobody waits for a large picture."""
        with nullcontext() if self.ready.is_set() else self._model:  # else loaded by two at once
            encoder = self.library.encoder
        with self._decoding:
            return encoder.open(path, data)

    def thumbnail(self, file: File, side: int) -> bytes:
        """A small JPEG of a known picture."""

        def make() -> bytes:
            with self._decoding:
                return thumbnail(file.path, side)

        return self._kept.get(("thumbnail", file.path, file.digest, side), make)

    def map(self, file: File, element: int) -> bytes:
        """What an element looked at, as a coloured layer to be laid over the picture."""
        place = self.place(element)
        key = ("map", file.path, file.digest, place)
        return self._kept.get(key, lambda: self._map(file.path, place))

    def _map(self, path: str, place: int) -> bytes:
        pixels = self._pixels(path)
        with self._model:
            share = picture_maps(self.library.encoder, pixels)[place]
        about = self.about(path).metadata
        size = _within(LAYER, about["width"], about["height"])
        left, top, right, bottom = _seen(self.library.encoder.preprocess, size)
        mask = np.asarray(mask_of(share, (right - left, bottom - top)), dtype=np.float32) * 0.75
        alpha = Image.new("L", size, 0)  # nothing is drawn where the network did not look
        alpha.paste(Image.fromarray(mask.astype(np.uint8)), (left, top))
        layer = Image.new("RGB", size, COLOURS[place % len(COLOURS)])
        layer.putalpha(alpha)
        stream = io.BytesIO()
        layer.save(stream, "PNG")
        return stream.getvalue()


def _within(side: int, width: int, height: int) -> tuple[int, int]:
    """The size of a picture whose longer side is made `side`.

    >>> _within(256, 4000, 1000)
    (256, 64)
    """
    scale = side / max(width, height)
    return max(1, round(width * scale)), max(1, round(height * scale))


def _seen(preprocess: Preprocess, size: tuple[int, int]) -> tuple[int, int, int, int]:
    """Left, top, right and bottom of what the network sees of a picture of this size.

    >>> _seen(Preprocess(224, crop="squash"), (200, 100))
    (0, 0, 200, 100)
    >>> _seen(Preprocess(224, crop="center", resize=256), (200, 100))
    (56, 6, 144, 94)
    """
    width, height = size
    if preprocess.crop == "squash":
        return 0, 0, width, height
    share = preprocess.size / (preprocess.resize or preprocess.size)
    side = max(1, round(min(size) * share))
    left, top = (width - side) // 2, (height - side) // 2
    return left, top, left + side, top + side
