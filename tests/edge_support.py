"""A client for `QdrantStore` over Qdrant's core in this process (qdrant-edge-py)."""

import uuid
from types import SimpleNamespace

import qdrant_edge as edge
from qdrant_client import models


class EdgeClient:
    """A client with one collection, in a folder."""

    def __init__(self, folder: str) -> None:
        self.folder, self.shard, self.metadata = folder, None, None

    def collection_exists(self, name):
        return self.shard is not None

    def create_collection(self, name, vectors_config, metadata, **layout):
        vectors = {
            key: edge.EdgeVectorParams(
                item.size,
                edge.Distance.Dot,
                hnsw_config=edge.HnswIndexConfig(_default(item.hnsw_config.m, 16), 100, 10),
            )
            for key, item in vectors_config.items()
        }
        early = edge.EdgeOptimizersConfig(indexing_threshold=100)  # KB; graphs of small collections
        self.shard = edge.EdgeShard.create(self.folder, edge.EdgeConfig(vectors, optimizers=early))
        self.metadata = metadata

    def get_collection(self, name):
        return SimpleNamespace(config=SimpleNamespace(metadata=self.metadata))

    def upsert(self, name, batch, wait):
        points = [
            edge.Point(
                uuid.UUID(item), {key: rows[index] for key, rows in batch.vectors.items()}, payload
            )
            for index, (item, payload) in enumerate(zip(batch.ids, batch.payloads, strict=True))
        ]
        self.shard.update(edge.UpdateOperation.upsert_points(points))

    def query_batch_points(self, name, requests):
        return [SimpleNamespace(points=self.shard.query(_request(item))) for item in requests]

    def count(self, name, count_filter, exact):
        request = edge.CountRequest(exact=exact, filter=_filter(count_filter))
        return SimpleNamespace(count=self.shard.count(request))

    def close(self):
        self.shard.close()


def _request(request: models.QueryRequest):
    return edge.QueryRequest(
        limit=request.limit,
        query=edge.Formula(_expression(request.query.formula), request.query.defaults),
        prefetches=[_prefetch(item) for item in request.prefetch],
        with_vector=request.with_vector,
        with_payload=request.with_payload,
    )


def _prefetch(prefetch: models.Prefetch):
    params = prefetch.params or models.SearchParams()
    return edge.Prefetch(
        limit=prefetch.limit,
        query=edge.Query.Nearest(prefetch.query, prefetch.using),
        prefetches=[_prefetch(inner) for inner in prefetch.prefetch or []],
        params=edge.SearchParams(hnsw_ef=params.hnsw_ef, exact=bool(params.exact)),
        filter=_filter(prefetch.filter),
    )


def _expression(expression):
    match expression:
        case models.SumExpression():
            return edge.Expression.Sum([_expression(item) for item in expression.sum])
        case models.MultExpression():
            return edge.Expression.Mult([_expression(item) for item in expression.mult])
        case models.ExpExpression():
            return edge.Expression.Exp(_expression(expression.exp))
        case models.LnExpression():
            return edge.Expression.Ln(_expression(expression.ln))
        case str():
            return edge.Expression.Variable(expression)
        case _:
            return edge.Expression.Constant(expression)


def _filter(condition):
    if condition is None:
        return None
    parts = {name: getattr(condition, name) for name in ("must", "should", "must_not")}
    return edge.Filter(
        **{
            name: None if conditions is None else [_condition(item) for item in conditions]
            for name, conditions in parts.items()
        }
    )


def _condition(condition):
    match condition:
        case models.Filter():
            return _filter(condition)
        case models.IsEmptyCondition():
            return edge.IsEmptyCondition(condition.is_empty.key)
        case models.FieldCondition(match=models.MatchValue()):
            return edge.FieldCondition(condition.key, match=edge.MatchValue(condition.match.value))
        case models.FieldCondition():
            bounds = condition.range.model_dump(exclude_none=True)
            return edge.FieldCondition(condition.key, range=edge.RangeFloat(**bounds))
        case _:
            raise TypeError(condition)


def _default(value, otherwise):
    return otherwise if value is None else value
