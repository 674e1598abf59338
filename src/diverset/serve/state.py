"""What a running server holds: the library, its searcher, numbers for Prometheus, small caches."""

from __future__ import annotations

import io
import itertools
import os
import threading
from functools import lru_cache
from pathlib import Path

import numpy as np
from PIL import Image
from prometheus_client import CollectorRegistry, Gauge

from diverset.errors import DataError, NotFoundError
from diverset.library.catalog import INDEXED, SKIPPED
from diverset.library.library import Library
from diverset.overlays import COLOURS, mask_of
from diverset.search.drawing import picture_maps
from diverset.search.query import Asked
from diverset.search.searcher import Answer, Elements, Searcher
from diverset.search.thumbnails import thumbnail
from diverset.serve.schemas import Job, Status

KEPT = 2000  # thumbnails in memory, some 10 KB each


class State:
    """Made once; `load` brings in what takes time."""

    def __init__(self, library: Library) -> None:
        self.library, self.searcher = library, Searcher(library)
        self.ready = threading.Event()
        self._model = threading.Lock()  # networks run one at a time: they use all cores anyway
        self.registry = CollectorRegistry()
        pictures = Gauge("diverset_pictures", "Indexed pictures", registry=self.registry)
        pictures.set_function(lambda: float(library.catalog.count(INDEXED)))
        self.words = lru_cache(1000)(self._words)
        self.thumbnail = lru_cache(KEPT)(self._thumbnail)
        self.map = lru_cache(KEPT)(self._map)

    def load(self) -> None:
        """Load the model and read the index once, so that the first question is not a slow one."""
        self.searcher.of_words(["ready"])
        if self.library.pictures.count():
            some = self.library.pictures.sample(1)
            self.library.pictures.search(some, k=1)
        self.ready.set()

    def status(self) -> Status:
        catalog = self.library.catalog
        job = catalog.working()
        return Status(
            pictures=catalog.count(INDEXED),
            texts=sum(items for _, _, items in catalog.tables().values()),
            skipped=catalog.count(SKIPPED),
            folders=[str(root) for root in catalog.roots],
            model=self.library.about["fingerprint"],
            indexing=Job(done=job["done"], total=job["total"], rate=job["rate"]) if job else None,
        )

    def known(self, name: str) -> str:
        """A path, if it is that of an indexed picture under an indexed folder; no other is read."""
        roots = [str(root).rstrip(os.sep) + os.sep for root in self.library.catalog.roots]
        clean = "\0" not in name and os.path.normpath(name) == name
        if not clean or not name.startswith(tuple(roots)) or not self.library.contains(name):
            raise NotFoundError("there is no such picture in the library; GET /items lists them")
        return name

    def picture(self, name: str) -> Elements:
        """The stored set of a picture."""
        stored = self.library.pictures.get([self.known(name)])
        if not stored.ids:
            raise NotFoundError("there is no such picture in the library; GET /items lists them")
        found: Elements = stored.sets[0]
        return found

    def search(self, asked: Asked, picture: Elements | None) -> Answer:
        with self._model:
            return self.searcher.search(asked, picture)

    def listed(self, offset: int, limit: int) -> list[str]:
        """Some of the indexed pictures, by path."""
        files = self.library.catalog.files(INDEXED)
        return [one.path for one in itertools.islice(files, offset, offset + limit)]

    def uploaded(self, data: bytes) -> Elements:
        with self._model:
            return self.searcher.of_picture("the upload", data)

    def _words(self, words: str) -> Elements:
        with self._model:
            found: Elements = self.searcher.of_words([words])[0]
        return found

    def _thumbnail(self, name: str, side: int) -> bytes:
        return thumbnail(Path(name), side)

    def _map(self, name: str, element: int) -> bytes:
        """What an element looked at, as a coloured layer to be laid over the picture."""
        slots = self.library.about["image_slots"]
        if not 1 <= element <= slots:
            raise DataError(f"element is {element}; a picture has 1 to {slots}")
        with self._model:
            share = picture_maps(self.searcher, name)[element - 1]
        colour = COLOURS[(element - 1) % len(COLOURS)]
        mask = np.asarray(mask_of(share, (128, 128)), dtype=np.float32) * 0.75
        layer = Image.new("RGB", (128, 128), colour)
        layer.putalpha(Image.fromarray(mask.astype(np.uint8)))
        stream = io.BytesIO()
        layer.save(stream, "PNG")
        return stream.getvalue()
