"""What is options_sent of a Qdrant server, as far as the local engine does not show it."""

import numpy as np
from qdrant_client import models
from store_support import SETTINGS, some_sets

from diverset.engines.qdrant_formula import formula, prefetches
from diverset.engines.qdrant_options import QdrantOptions, vector_params


def test_approximate_search_prefetches_every_pair_of_the_nearest_means():
    query = some_sets(1, 2)[0]
    where = models.Filter(must=[])
    requests = prefetches(query, elements=["e0", "e1", "e2"], limit=50, exact=False, filter=where)
    assert [prefetch.using for prefetch in requests] == ["e0", "e1", "e2"] * 2
    for request in requests:
        (nearest,) = request.prefetch
        assert nearest.using == "mean" and nearest.limit == request.limit == 50
        assert nearest.filter is where and request.params is None
        assert nearest.params.hnsw_ef == 100
        np.testing.assert_allclose(nearest.query, query.mean(axis=0), rtol=1e-6)


def test_exact_search_requests_exact_prefetches():
    requests = prefetches(
        some_sets(1, 2)[0], elements=["e0", "e1", "e2"], limit=7, exact=True, filter=None
    )
    assert all(request.prefetch is None and request.params.exact for request in requests)


def test_a_missing_pair_has_the_lowest_cosine():
    query = formula(query_elements=2, elements=3, alpha=16.0)
    assert query.defaults == {f"$score[{number}]": -1.0 for number in range(6)}
    assert query.model_dump_json().count("$score[5]") == 3  # two directions and its default


def test_only_the_mean_has_a_graph_and_only_it_is_quantized():
    vectors = vector_params(SETTINGS, QdrantOptions(quantize="int8", on_disk=True))
    assert list(vectors) == ["mean", "e0", "e1", "e2"]
    assert {params.distance for params in vectors.values()} == {models.Distance.DOT}
    assert vectors["mean"].hnsw_config.m is None and vectors["e0"].hnsw_config.m == 0
    assert vectors["mean"].quantization_config.scalar.type == models.ScalarType.INT8
    assert vectors["mean"].on_disk and vectors["e1"].on_disk
    assert vectors["e1"].quantization_config is None
    plain = vector_params(SETTINGS, QdrantOptions(m=32))
    assert plain["mean"].hnsw_config.m == 32
    assert plain["mean"].quantization_config is None and not plain["e0"].on_disk
    binary = vector_params(SETTINGS, QdrantOptions(quantize="binary"))["mean"]
    assert binary.quantization_config.binary.always_ram


def test_a_collection_is_created_with_shards_and_replicas(monkeypatch):
    from qdrant_client import QdrantClient

    from diverset.engines.qdrant import QdrantStore

    options_sent = {}
    client = QdrantClient(":memory:")
    create = client.create_collection
    monkeypatch.setattr(
        client,
        "create_collection",
        lambda name, **kwargs: options_sent.update(kwargs) or create(name, **kwargs),
    )
    options = QdrantOptions(shards=6, replicas=2, write_consistency=2)
    QdrantStore.create(client, "memory", "x", SETTINGS, options).close()
    assert (options_sent["shard_number"], options_sent["replication_factor"]) == (6, 2)
    assert options_sent["write_consistency_factor"] == 2
