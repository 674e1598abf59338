"""The state of a running server: the library, its searcher, Prometheus metrics, caches."""

from __future__ import annotations

import asyncio
import io
import itertools
import os
import threading
import time
from collections.abc import Sequence
from contextlib import nullcontext

import torch
from cachetools import LRUCache, cachedmethod
from jaxtyping import Float
from PIL import Image
from prometheus_client import CollectorRegistry, Gauge
from torch import Tensor

from diverset.data.walking import is_within
from diverset.errors import DiversetError, NotFoundError, RebuiltError
from diverset.index.set_store import Records
from diverset.model.overlays import COLOURS, scale_to_side, transparent_overlay
from diverset.photos.element_numbers import check_element
from diverset.photos.library.catalog import INDEXED, SKIPPED, FileRecord
from diverset.photos.library.library import Library
from diverset.photos.library.reading import read_indexed
from diverset.photos.search.result import SearchResult
from diverset.photos.search.search_together import Search, search_together
from diverset.photos.search.searcher import Searcher
from diverset.photos.search.text_sets import Elements
from diverset.photos.search.thumbnails import thumbnail
from diverset.photos.serve.micro_batches import MicroBatches
from diverset.photos.serve.schemas import IndexingStatus, ItemInfo, LibraryStatus
from diverset.runtime.autocast import fastest_precision
from diverset.runtime.threads import torch_threads

CACHE_BYTES = 64 * 2**20  # of thumbnails and overlays, about 10 KB each
CACHED_MAPS = 256  # images whose maps of elements are kept, a few KB each
OVERLAY_SIDE = 256  # pixels; overlays are smooth, so browsers can enlarge them
NO_IMAGE = "there is no such image in the library; GET /items lists them"
DELETED = "the file was deleted or moved since it was indexed; update with: diverset index --all"
CHECK_INTERVAL = 1.0  # seconds between two checks that the library was not rebuilt
MAX_DECODERS = 2  # large images that are decoded at a time, 0.5 GB each


class ServerState:
    """Created once; `load` does what takes time."""

    def __init__(self, library: Library) -> None:
        self.library = library
        self.searcher = Searcher(library, precision=fastest_precision())
        self.ready = threading.Event()
        self.outdated = False
        self._checked = time.monotonic()
        # The image network uses all cores, so it runs once at a time; searches do not wait for it.
        self._image_lock, self._cores = threading.Lock(), torch.get_num_threads()
        self._search_lock = threading.Lock()
        self.batches = MicroBatches(self._search_together)
        self.registry = CollectorRegistry()
        images = Gauge("diverset_images", "Indexed images", registry=self.registry)
        images.set_function(lambda: float(library.catalog.count(INDEXED)))
        self._decoders = threading.Semaphore(MAX_DECODERS)
        self._cache: LRUCache[tuple[object, ...], bytes] = LRUCache(CACHE_BYTES, getsizeof=len)
        self._maps: LRUCache[tuple[str, str], Tensor] = LRUCache(CACHED_MAPS)
        self._cache_lock = threading.Lock()

    def load(self) -> None:
        """Load the model and read the index once, so that the first request is not slow."""
        with self._search_lock, self._image_lock:
            encoder = self.library.encoder  # all of the model, which texts then use, too
            encoder.encode([encoder.preprocess.pixels(Image.new("RGB", (64, 64)))])
            self.searcher.encode_text("ready")
        if self.library.images.count():
            self.library.images.search(self.library.images.sample(1), k=1)
        self.ready.set()

    async def check(self) -> None:
        """Raise if the library was rebuilt or removed; checks once per second."""
        if not self.outdated and time.monotonic() - self._checked > CHECK_INTERVAL:
            self._checked = time.monotonic()
            try:
                await asyncio.to_thread(self.library.check_current)
            except RebuiltError:
                self.outdated = True
        if self.outdated:
            raise RebuiltError("the library was rebuilt or removed; restart diverset serve")

    def status(self) -> LibraryStatus:
        catalog = self.library.catalog
        progress = self.library.indexing_progress()
        return LibraryStatus(
            images=catalog.count(INDEXED),
            texts=self.library.recorded_items("texts"),
            skipped=catalog.count(SKIPPED),
            folders=[str(root) for root in catalog.roots],
            model=self.library.info["fingerprint"],
            indexing=IndexingStatus(**progress) if progress else None,
        )

    def file(self, id: str) -> FileRecord:
        """An indexed image under an indexed folder; no other file is ever read."""
        file = None if "\0" in id else self.library.indexed_file(id)
        if file is None or not is_within(id, self.library.catalog.roots):
            raise NotFoundError(NO_IMAGE)
        return file

    def present_file(self, id: str) -> FileRecord:
        """An indexed image whose file still exists, even if its thumbnail is cached."""
        file = self.file(id)
        if not os.path.exists(file.path):
            raise NotFoundError(DELETED)
        return file

    def original(self, file: FileRecord) -> bytes:
        """The indexed file as it is."""
        with self._decoders:
            return read_indexed(file)

    def _stored(self, id: str) -> Records:
        stored = self.library.images.get([self.file(id).path])
        if not stored.ids:  # another process has just removed it
            raise NotFoundError(NO_IMAGE)
        return stored

    def elements(self, id: str) -> Elements:
        """The stored set of an image."""
        elements: Elements = self._stored(id).sets[0]
        return elements

    def info(self, id: str) -> ItemInfo:
        """What is known about an image without any query."""
        stored = self._stored(id)
        return ItemInfo(
            id=id,
            elements=stored.sets.shape[1],
            copies=self.searcher.copies().others(id),
            metadata=dict(stored.metadata[0]),
        )

    def _search_together(
        self, searches: Sequence[Search]
    ) -> Sequence[SearchResult | DiversetError]:
        with self._search_lock, torch_threads(1):  # other requests use the other cores
            return search_together(self.searcher, searches)

    def encode_text(self, text: str) -> Elements:
        with nullcontext() if self.ready.is_set() else self._search_lock:
            return self.searcher.encode_text(text)

    def list_ids(self, offset: int, limit: int) -> list[str]:
        """Some of the indexed images, ordered by path."""
        files = self.library.catalog.files(INDEXED)
        return [file.path for file in itertools.islice(files, offset, offset + limit)]

    def encode_upload(self, data: bytes) -> Elements:
        image = self._open("the upload", data)
        encoder = self.library.encoder
        pixels = encoder.preprocess.pixels(image)
        with self._image_lock, torch_threads(self._cores):
            elements: Elements = encoder.encode([pixels])[0]
        return elements

    def _open(self, path: str, data: bytes) -> Image.Image:
        """Decoded outside the network's lock, so that nobody waits for a large image."""
        # Before the model is loaded, two requests must not load it at once.
        with nullcontext() if self.ready.is_set() else self._image_lock:
            encoder = self.library.encoder
        with self._decoders:
            return encoder.open(path, data)

    @cachedmethod(
        lambda self: self._cache,
        key=lambda _, file, side: ("thumbnail", file.path, file.digest, side),
        lock=lambda self: self._cache_lock,
    )
    def thumbnail(self, file: FileRecord, side: int) -> bytes:
        """A small JPEG of an indexed image."""
        with self._decoders:
            return thumbnail(file.path, side, read_indexed(file))

    @cachedmethod(
        lambda self: self._maps,
        key=lambda _, file: (file.path, file.digest),
        lock=lambda self: self._cache_lock,
    )
    def element_maps(self, file: FileRecord) -> Float[Tensor, "slots rows columns"]:
        """The part of an image that each element represents."""
        image = self._open(file.path, read_indexed(file))
        with self._image_lock, torch_threads(self._cores):
            return self.library.encoder.element_maps(image)

    @cachedmethod(
        lambda self: self._cache,
        key=lambda _, file, element: ("overlay", file.path, file.digest, element),
        lock=lambda self: self._cache_lock,
    )
    def overlay(self, file: FileRecord, element: int) -> bytes:
        """The part of an image that an element represents: a transparent PNG in the proportions of
        the image."""
        check_element(element, self.library.info["image_slots"])
        slot_map = self.element_maps(file)[element]
        metadata = self.info(file.path).metadata
        size = scale_to_side(metadata["width"], metadata["height"], OVERLAY_SIDE)
        colour = COLOURS[element % len(COLOURS)]
        layer = transparent_overlay(self.library.encoder.preprocess, slot_map, size, colour)
        stream = io.BytesIO()
        layer.save(stream, "PNG")
        return stream.getvalue()
