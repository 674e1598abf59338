"""What is asked of a Qdrant server, as far as the local engine does not show it."""

import numpy as np
from qdrant_client import models
from store_support import SETTINGS, some_sets

from diverset.engines.qdrant_formula import formula, prefetches
from diverset.engines.qdrant_options import QdrantOptions, vector_params


def test_every_pair_is_a_prefetch_over_the_nearest_means():
    query = some_sets(1, 2)[0]
    where = models.Filter(must=[])
    asked = prefetches(query, slots=3, limit=50, approximate=True, where=where)
    assert [one.using for one in asked] == ["e0", "e1", "e2"] * 2
    for one in asked:
        (nearest,) = one.prefetch
        assert nearest.using == "mean" and nearest.limit == one.limit == 50
        assert nearest.filter is where and one.params is None
        assert nearest.params.hnsw_ef == 100
        np.testing.assert_allclose(nearest.query, query.mean(axis=0), rtol=1e-6)


def test_without_candidates_a_server_is_told_to_be_exact():
    asked = prefetches(some_sets(1, 2)[0], slots=3, limit=7, approximate=False, where=None)
    assert all(one.prefetch is None and one.params.exact for one in asked)


def test_a_pair_that_no_prefetch_returned_counts_least():
    asked = formula(queries=2, slots=3, alpha=16.0)
    assert asked.defaults == {f"$score[{number}]": -1.0 for number in range(6)}
    assert asked.model_dump_json().count("$score[5]") == 3  # two directions and its default


def test_only_the_mean_has_a_graph_and_only_it_is_quantized():
    found = vector_params(SETTINGS, QdrantOptions(quantize="int8", on_disk=True))
    assert list(found) == ["mean", "e0", "e1", "e2"]
    assert {one.distance for one in found.values()} == {models.Distance.DOT}
    assert found["mean"].hnsw_config.m is None and found["e0"].hnsw_config.m == 0
    assert found["mean"].quantization_config.scalar.type == models.ScalarType.INT8
    assert found["mean"].on_disk and found["e1"].on_disk
    assert found["e1"].quantization_config is None
    plain = vector_params(SETTINGS, QdrantOptions(m=32))
    assert plain["mean"].hnsw_config.m == 32
    assert plain["mean"].quantization_config is None and not plain["e0"].on_disk
    binary = vector_params(SETTINGS, QdrantOptions(quantize="binary"))["mean"]
    assert binary.quantization_config.binary.always_ram


def test_shards_and_replicas_are_asked_for(monkeypatch):
    from qdrant_client import QdrantClient

    from diverset.engines.qdrant import QdrantStore

    asked = {}
    client = QdrantClient(":memory:")
    create = client.create_collection
    monkeypatch.setattr(
        client,
        "create_collection",
        lambda name, **given: asked.update(given) or create(name, **given),
    )
    options = QdrantOptions(shards=6, replicas=2, write_consistency=2)
    QdrantStore.create(client, "memory", "x", SETTINGS, options).close()
    assert (asked["shard_number"], asked["replication_factor"]) == (6, 2)
    assert asked["write_consistency_factor"] == 2
