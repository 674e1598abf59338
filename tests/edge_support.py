"""Qdrant's own core, which the package qdrant-edge-py runs in this process, behind the calls of the
client that `QdrantStore` makes: what a server computes, without a server."""

import uuid
from types import SimpleNamespace

import qdrant_edge as edge
from qdrant_client import models


class EdgeClient:
    """One collection in a folder."""

    def __init__(self, folder: str) -> None:
        self.folder, self.shard, self.metadata = folder, None, None

    def collection_exists(self, name):
        return self.shard is not None

    def create_collection(self, name, vectors_config, metadata, **layout):
        vectors = {
            key: edge.EdgeVectorParams(
                one.size,
                edge.Distance.Dot,
                hnsw_config=edge.HnswIndexConfig(_default(one.hnsw_config.m, 16), 100, 10),
            )
            for key, one in vectors_config.items()
        }
        early = edge.EdgeOptimizersConfig(indexing_threshold=100)  # KB; graphs of small collections
        self.shard = edge.EdgeShard.create(self.folder, edge.EdgeConfig(vectors, optimizers=early))
        self.metadata = metadata

    def get_collection(self, name):
        return SimpleNamespace(config=SimpleNamespace(metadata=self.metadata))

    def upsert(self, name, batch, wait):
        points = [
            edge.Point(
                uuid.UUID(one), {key: rows[place] for key, rows in batch.vectors.items()}, payload
            )
            for place, (one, payload) in enumerate(zip(batch.ids, batch.payloads, strict=True))
        ]
        self.shard.update(edge.UpdateOperation.upsert_points(points))

    def query_batch_points(self, name, requests):
        return [SimpleNamespace(points=self.shard.query(_request(one))) for one in requests]

    def count(self, name, count_filter, exact):
        asked = edge.CountRequest(exact=exact, filter=_filter(count_filter))
        return SimpleNamespace(count=self.shard.count(asked))

    def close(self):
        self.shard.close()


def _request(asked: models.QueryRequest):
    return edge.QueryRequest(
        limit=asked.limit,
        query=edge.Formula(_expression(asked.query.formula), asked.query.defaults),
        prefetches=[_prefetch(one) for one in asked.prefetch],
        with_vector=asked.with_vector,
        with_payload=asked.with_payload,
    )


def _prefetch(asked: models.Prefetch):
    params = asked.params or models.SearchParams()
    return edge.Prefetch(
        limit=asked.limit,
        query=edge.Query.Nearest(asked.query, asked.using),
        prefetches=[_prefetch(one) for one in asked.prefetch or []],
        params=edge.SearchParams(hnsw_ef=params.hnsw_ef, exact=bool(params.exact)),
        filter=_filter(asked.filter),
    )


def _expression(asked):
    match asked:
        case models.SumExpression():
            return edge.Expression.Sum([_expression(one) for one in asked.sum])
        case models.MultExpression():
            return edge.Expression.Mult([_expression(one) for one in asked.mult])
        case models.ExpExpression():
            return edge.Expression.Exp(_expression(asked.exp))
        case models.LnExpression():
            return edge.Expression.Ln(_expression(asked.ln))
        case str():
            return edge.Expression.Variable(asked)
        case _:
            return edge.Expression.Constant(asked)


def _filter(asked):
    if asked is None:
        return None
    parts = {name: getattr(asked, name) for name in ("must", "should", "must_not")}
    return edge.Filter(
        **{
            name: None if some is None else [_condition(one) for one in some]
            for name, some in parts.items()
        }
    )


def _condition(asked):
    match asked:
        case models.Filter():
            return _filter(asked)
        case models.IsEmptyCondition():
            return edge.IsEmptyCondition(asked.is_empty.key)
        case models.FieldCondition(match=models.MatchValue()):
            return edge.FieldCondition(asked.key, match=edge.MatchValue(asked.match.value))
        case models.FieldCondition():
            bounds = asked.range.model_dump(exclude_none=True)
            return edge.FieldCondition(asked.key, range=edge.RangeFloat(**bounds))
        case _:
            raise TypeError(asked)


def _default(value, otherwise):
    return otherwise if value is None else value
