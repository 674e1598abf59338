"""Qdrant as a store of embedding sets: a server, a cluster, or the client's own local engine.

A point carries the mean of its set and every element as named vectors, so that the score is
computed where the vectors are. Only the mean has an HNSW graph; elements are read for candidates
alone and may stay on disk. Points are named by a UUID of the item's id, which the payload keeps.
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
from diverset.engines.qdrant_formula import MEAN, element, formula, prefetches
from diverset.engines.qdrant_options import QdrantOptions, vector_params
from diverset.engines.settings import check_name, check_storable, from_stored, to_stored
from diverset.errors import EngineError
from diverset.index.base import Hit, Metadata, Records, Sets, Settings
from diverset.index.checks import check_k, check_queries, wanted_ids
from diverset.index.explain import explain
from diverset.index.where import parse

ID = "id"  # the payload's key of the item's id
SPACE = uuid.UUID("ecd43d8a-a18b-5674-8152-77ad37734e02")  # stored points hang on it: never change
REQUEST_BYTES = 8 * 2**20  # a quarter of what a server accepts by default
NUMBER_BYTES = 24  # a float32 as JSON, written as a float64
QUERIES = 8  # in one request
IDS = 1000  # in one request


class QdrantStore:
    """A collection of a Qdrant server; see `diverset.index.base.SetStore` for the methods."""

    def __init__(
        self,
        client: QdrantClient,
        place: str,
        name: str,
        settings: Settings,
        options: QdrantOptions | None = None,
    ) -> None:
        """`place` names the server in messages."""
        self._client, self._place, self._name = client, place, name
        self._settings, self._options = settings, options or QdrantOptions()
        self._elements = [element(one) for one in range(settings.slots)]

    @classmethod
    def open(
        cls, client: QdrantClient, place: str, name: str, options: QdrantOptions | None = None
    ) -> QdrantStore:
        """Open a collection that exists."""
        if not cls.exists(client, place, name):
            raise EngineError(
                f"{place} has no collection {name!r}; make it by diverset index copy or add-shards"
            )
        with _asking(place):
            about = client.get_collection(name).config
        settings = from_stored(about.metadata, f"{place} collection {name}")
        return cls(client, place, name, settings, options)

    @classmethod
    def create(
        cls,
        client: QdrantClient,
        place: str,
        name: str,
        settings: Settings,
        options: QdrantOptions | None = None,
    ) -> QdrantStore:
        """Make a new, empty collection; its settings are kept in its metadata (Qdrant 1.16 on)."""
        options, stored = options or QdrantOptions(), to_stored(settings)
        if cls.exists(client, place, name):
            raise EngineError(f"{place} already has a collection {name!r}; open it instead")
        with _asking(place):
            client.create_collection(
                name,
                vectors_config=vector_params(settings, options),
                shard_number=options.shards or None,
                replication_factor=options.replicas or None,
                write_consistency_factor=options.write_consistency or None,
                metadata=stored,
            )
        return cls.open(client, place, name, options)

    @staticmethod
    def exists(client: QdrantClient, place: str, name: str) -> bool:
        """Whether there is a collection of this name."""
        check_name("collection", name)
        with _asking(place):
            return client.collection_exists(name)

    @property
    def settings(self) -> Settings:
        return self._settings

    def add(
        self, ids: Sequence[str], sets: Sets, metadata: Sequence[Metadata] | None = None
    ) -> None:
        items = check_storable(self._settings, ids, sets, metadata)
        size = REQUEST_BYTES // (NUMBER_BYTES * self._settings.dim * (self._settings.slots + 1))
        for part in _slices(len(items.ids), max(1, size)):
            with _asking(self._place):
                self._client.upsert(self._name, _batch(items, part), wait=True)

    def delete(self, ids: Sequence[str]) -> int:
        points: list[models.ExtendedPointId] = [point_id(one) for one in wanted_ids(ids)]
        there = 0
        for part in _slices(len(points), IDS):
            with _asking(self._place):
                there += len(self._client.retrieve(self._name, points[part], with_payload=False))
                self._client.delete(self._name, models.PointIdsList(points=points[part]), wait=True)
        return there

    def search(self, queries: Sets, k: int = 10, where: str | None = None) -> list[list[Hit]]:
        checked, limit = check_queries(self._settings, queries), check_k(k)
        chosen = None if where is None else to_qdrant(parse(where))
        approximate = self._options.candidates > 0
        scored = max(self._options.candidates, k) if approximate else self._count(chosen)
        if not scored:
            return [[] for _ in checked]
        hits: list[list[Hit]] = []
        for part in _slices(len(checked), QUERIES):
            asked = [
                self._request(one, limit, scored, approximate, chosen) for one in checked[part]
            ]
            with _asking(self._place):
                found = self._client.query_batch_points(self._name, asked)
            hits += [
                self._hits(query, answer.points)
                for query, answer in zip(checked[part], found, strict=True)
            ]
        return hits

    def count(self, where: str | None = None) -> int:
        return self._count(None if where is None else to_qdrant(parse(where)))

    def walk(self, size: int = 1000) -> Iterator[Records]:
        # Qdrant orders points by their UUIDs and cannot sort by text: ids are sorted here.
        ids = sorted(self._ids())
        for part in _slices(len(ids), size):
            points: dict[str, models.Record] = {}
            for some in _slices(len(ids[part]), IDS):
                wanted = [point_id(one) for one in ids[part][some]]
                with _asking(self._place):
                    found = self._client.retrieve(
                        self._name, wanted, with_payload=True, with_vectors=self._elements
                    )
                points |= {one.payload[ID]: one for one in found if one.payload}
            there = [points[one] for one in ids[part] if one in points]
            if there:
                yield Records(
                    [str(one.payload[ID]) for one in there if one.payload],
                    np.stack([self._set(one.vector) for one in there]),
                    [one.payload[METADATA] for one in there if one.payload],
                )

    def close(self) -> None:
        self._client.close()

    def _request(
        self,
        query: NDArray[np.float32],
        limit: int,
        scored: int,
        approximate: bool,
        where: models.Filter | None,
    ) -> models.QueryRequest:
        slots = self._settings.slots
        return models.QueryRequest(
            prefetch=prefetches(query, slots, scored, approximate, where),
            query=formula(len(query), slots, self._settings.alpha),
            limit=limit,
            with_payload=True,
            with_vector=self._elements,
        )

    def _hits(self, query: NDArray[np.float32], points: list[models.ScoredPoint]) -> list[Hit]:
        if not points:
            return []
        sets = np.stack([self._set(one.vector) for one in points])
        why = explain(query, sets, self._settings.alpha)
        hits = [
            Hit(str(one.payload[ID]), one.score, one.payload[METADATA], contributions, cosines)
            for one, contributions, cosines in zip(
                points, why.contributions, why.cosines, strict=True
            )
            if one.payload
        ]
        return sorted(hits, key=lambda hit: (-hit.score, hit.id))

    def _set(self, vectors: Any) -> NDArray[np.float32]:
        return np.array([vectors[name] for name in self._elements], dtype=np.float32)

    def _count(self, where: models.Filter | None) -> int:
        with _asking(self._place):
            return self._client.count(self._name, count_filter=where, exact=True).count

    def _ids(self) -> Iterator[str]:
        after: Any = None
        while True:
            with _asking(self._place):
                found, after = self._client.scroll(
                    self._name, limit=10 * IDS, offset=after, with_payload=[ID]
                )
            yield from (str(one.payload[ID]) for one in found if one.payload)
            if after is None:
                return


def connect(url: str, api_key: str | None, seconds: int) -> QdrantClient:
    """A client of a server; nothing is asked of it yet."""
    return QdrantClient(url=url, api_key=api_key, timeout=seconds, check_compatibility=False)


def connect_locally(folder: str) -> QdrantClient:
    """The client's own engine on a folder, or `:memory:`."""
    with _asking(folder):
        return QdrantClient(path=folder) if folder != ":memory:" else QdrantClient(folder)


def point_id(item: str) -> str:
    """The UUID under which Qdrant keeps an item.

    >>> point_id("cat.jpg")
    'b2a2729d-e618-5a78-939b-eac574e8fb89'
    """
    return str(uuid.uuid5(SPACE, item))


def _batch(items: Records, part: slice) -> models.Batch:
    sets = items.sets[part]
    vectors: dict[str, Any] = {MEAN: sets.mean(axis=1).tolist()}
    vectors |= {element(one): sets[:, one].tolist() for one in range(sets.shape[1])}
    return models.Batch(
        ids=[point_id(one) for one in items.ids[part]],
        vectors=vectors,
        payloads=[
            {ID: one, METADATA: dict(metadata)}
            for one, metadata in zip(items.ids[part], items.metadata[part], strict=True)
        ],
    )


def _slices(count: int, size: int) -> Iterator[slice]:
    return (slice(start, start + size) for start in range(0, count, size))


@contextmanager
def _asking(place: str) -> Iterator[None]:
    """Around calls of the client: whatever it raises names the server and the next step."""
    try:
        yield
    except (ApiException, QdrantException, httpx.HTTPError, OSError) as error:
        raise EngineError(
            f"Qdrant at {place} does not answer as it should ({error}); "
            "check that it runs there and that QDRANT_API_KEY fits"
        ) from error
    except (ValueError, RuntimeError) as error:  # the local engine's own
        raise EngineError(f"Qdrant's local engine at {place} refuses: {error}") from error
