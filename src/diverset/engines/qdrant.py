"""Qdrant as a store of embedding sets: a server, a cluster, or the client's local engine.

A point has the mean of its set and every element as named vectors, so the server computes scores.
Only the mean has an HNSW graph; elements are only read for candidates and may stay on disk. The
UUID of a point is derived from the item's id, which is in the payload.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import httpx
import numpy as np
from numpy.typing import NDArray
from qdrant_client import QdrantClient, models
from qdrant_client.common.client_exceptions import QdrantException
from qdrant_client.http.exceptions import ApiException

from diverset.engines.qdrant_filter import METADATA, to_qdrant
from diverset.engines.qdrant_formula import MEAN, formula, prefetches
from diverset.engines.qdrant_options import QdrantOptions, vector_params
from diverset.engines.settings import (
    check_name,
    check_storable,
    element_names,
    from_stored,
    to_stored,
)
from diverset.errors import EngineError
from diverset.index.checks import check_queries, storable_ids
from diverset.index.explain import pair_cosines
from diverset.index.set_store import Hit, IndexSettings, Metadata, Records, Sets

ID = "id"  # the payload key of the item's id
NAMESPACE = uuid.UUID("ecd43d8a-a18b-5674-8152-77ad37734e02")  # of stored points: never change
REQUEST_BYTES = 8 * 2**20  # a quarter of what a server accepts by default
NUMBER_BYTES = 24  # a float32 as JSON, written as a float64
QUERIES_PER_REQUEST = 8
IDS_PER_REQUEST = 1000
TIMEOUT = 60  # seconds to wait for a response


class QdrantStore:
    """A collection of a Qdrant server; see `diverset.index.SetStore` for the methods."""

    def __init__(
        self,
        client: QdrantClient,
        server: str,
        name: str,
        settings: IndexSettings,
        options: QdrantOptions,
    ) -> None:
        """`server` is the name of the server in messages."""
        self._client, self._server, self._name = client, server, name
        self.settings, self._options = settings, options
        self._elements = element_names(settings)

    @classmethod
    def open(
        cls, client: QdrantClient, server: str, name: str, options: QdrantOptions | None = None
    ) -> QdrantStore:
        if not cls.exists(client, server, name):
            raise EngineError(
                f"{server} has no collection {name!r}; create it with diverset store copy or "
                "diverset store load-shards"
            )
        with _translate_errors(server):
            config = client.get_collection(name).config
        settings = from_stored(config.metadata, f"{server} collection {name}")
        return cls(client, server, name, settings, options or QdrantOptions())

    @classmethod
    def create(
        cls,
        client: QdrantClient,
        server: str,
        name: str,
        settings: IndexSettings,
        options: QdrantOptions | None = None,
    ) -> QdrantStore:
        """Create an empty collection; its metadata (Qdrant 1.16 or newer) hold the settings."""
        options, stored = options or QdrantOptions(), to_stored(settings)
        if cls.exists(client, server, name):
            raise EngineError(f"{server} already has a collection {name!r}; open it instead")
        with _translate_errors(server):
            client.create_collection(
                name,
                vectors_config=vector_params(settings, options),
                shard_number=options.shards,
                replication_factor=options.replicas,
                write_consistency_factor=options.write_consistency,
                metadata=stored,
            )
        return cls.open(client, server, name, options)

    @staticmethod
    def exists(client: QdrantClient, server: str, name: str) -> bool:
        check_name("collection", name)
        with _translate_errors(server):
            return client.collection_exists(name)

    def add(
        self, ids: Sequence[str], sets: Sets, metadata: Sequence[Metadata] | None = None
    ) -> None:
        items = check_storable(self.settings, ids, sets, metadata)
        item_bytes = NUMBER_BYTES * self.settings.dim * (self.settings.elements + 1)
        for part in _slices(len(items.ids), max(1, REQUEST_BYTES // item_bytes)):
            with _translate_errors(self._server):
                self._client.upsert(self._name, self._points(items, part), wait=True)

    def delete(self, ids: Sequence[str]) -> int:
        points: list[models.ExtendedPointId] = [point_id(item) for item in storable_ids(ids)]
        count = 0
        for part in _slices(len(points), IDS_PER_REQUEST):
            with _translate_errors(self._server):
                count += len(self._client.retrieve(self._name, points[part], with_payload=False))
                self._client.delete(self._name, models.PointIdsList(points=points[part]), wait=True)
        return count

    def search(
        self, queries: Sets, k: int = 10, filter: str | None = None, exact: bool = True
    ) -> list[list[Hit]]:
        checked, limit = check_queries(self.settings, queries, k)
        condition = to_qdrant(filter)
        scored = self._count(condition) if exact else max(self._options.candidates, limit)
        if not scored:
            return [[] for _ in checked]
        hits: list[list[Hit]] = []
        for part in _slices(len(checked), QUERIES_PER_REQUEST):
            requests = [
                models.QueryRequest(
                    prefetch=prefetches(query, self._elements, scored, exact, condition),
                    query=formula(len(query), len(self._elements), self.settings.alpha),
                    limit=limit,
                    with_payload=True,
                    with_vector=self._elements,
                )
                for query in checked[part]
            ]
            with _translate_errors(self._server):
                responses = self._client.query_batch_points(self._name, requests)
            hits += [
                self._hits(query, response.points)
                for query, response in zip(checked[part], responses, strict=True)
            ]
        return hits

    def count(self, filter: str | None = None) -> int:
        return self._count(to_qdrant(filter))

    def walk(self, size: int = 1000) -> Iterator[Records]:
        # Qdrant orders points by their UUIDs and cannot sort by text: ids are sorted here.
        ids = sorted(self._ids())
        for part in _slices(len(ids), min(size, IDS_PER_REQUEST)):
            with _translate_errors(self._server):
                records = self._client.retrieve(
                    self._name,
                    [point_id(item) for item in ids[part]],
                    with_payload=True,
                    with_vectors=self._elements,
                )
            points = {record.payload[ID]: record for record in records if record.payload}
            stored = [item for item in ids[part] if item in points]  # others were deleted since
            if stored:
                yield Records(
                    stored,
                    np.stack([self._set(points[item].vector) for item in stored]),
                    [(points[item].payload or {})[METADATA] for item in stored],
                )

    def close(self) -> None:
        self._client.close()

    def _points(self, items: Records, part: slice) -> models.Batch:
        sets = items.sets[part]
        vectors: dict[str, Any] = {MEAN: sets.mean(axis=1).tolist()}
        vectors |= dict(zip(self._elements, sets.swapaxes(0, 1).tolist(), strict=True))
        return models.Batch(
            ids=[point_id(item) for item in items.ids[part]],
            vectors=vectors,
            payloads=[
                {ID: item, METADATA: dict(metadata)}
                for item, metadata in zip(items.ids[part], items.metadata[part], strict=True)
            ],
        )

    def _hits(self, query: NDArray[np.float32], points: list[models.ScoredPoint]) -> list[Hit]:
        if not points:
            return []
        cosines = pair_cosines(query, np.stack([self._set(point.vector) for point in points]))
        alpha = self.settings.alpha
        hits = [
            Hit(str(point.payload[ID]), point.score, point.payload[METADATA], pairs, alpha)
            for point, pairs in zip(points, cosines, strict=True)
            if point.payload
        ]
        return sorted(hits, key=lambda hit: (-hit.score, hit.id))

    def _set(self, vectors: Any) -> NDArray[np.float32]:
        return np.array([vectors[name] for name in self._elements], dtype=np.float32)

    def _count(self, condition: models.Filter | None) -> int:
        with _translate_errors(self._server):
            return self._client.count(self._name, count_filter=condition, exact=True).count

    def _ids(self) -> Iterator[str]:
        offset: Any = None
        while True:
            with _translate_errors(self._server):
                records, offset = self._client.scroll(
                    self._name, limit=10 * IDS_PER_REQUEST, offset=offset, with_payload=[ID]
                )
            yield from (str(record.payload[ID]) for record in records if record.payload)
            if offset is None:
                return


def connect(url: str, api_key: str | None) -> QdrantClient:
    """A client of a server; sends no request yet."""
    return QdrantClient(url=url, api_key=api_key, timeout=TIMEOUT, check_compatibility=False)


def connect_local(folder: str) -> QdrantClient:
    """The client's local engine in a folder, or in memory (`:memory:`)."""
    with _translate_errors(folder):
        return QdrantClient(path=folder) if folder != ":memory:" else QdrantClient(folder)


def point_id(item: str) -> str:
    """The UUID of an item's point.

    >>> point_id("cat.jpg")
    'b2a2729d-e618-5a78-939b-eac574e8fb89'
    """
    return str(uuid.uuid5(NAMESPACE, item))


def _slices(count: int, size: int) -> Iterator[slice]:
    return (slice(start, start + size) for start in range(0, count, size))


@contextmanager
def _translate_errors(server: str) -> Iterator[None]:
    """Errors of the client as errors that name the server and the next step."""
    try:
        yield
    except (ApiException, QdrantException, httpx.HTTPError, OSError) as error:
        raise EngineError(
            f"request to Qdrant at {server} failed ({error}); check that it is running and that "
            "QDRANT_API_KEY is right"
        ) from error
    except (ValueError, RuntimeError) as error:  # of the local engine
        raise EngineError(f"Qdrant's local engine at {server} failed: {error}") from error
