"""The queries and filters of `QdrantStore` in Qdrant's own core, which servers run as well."""

from contextlib import closing

import numpy as np
import pytest
from edge_support import EdgeClient
from filter_support import (
    FIELDS,
    METADATA,
    VALUES,
    compares_parts_of_text,
    leaves,
    matches,
    orders_text,
    to_text,
    trees,
)
from hypothesis import HealthCheck, given, settings
from store_support import SETTINGS, clustered_sets, exact_scores, some_sets

from diverset.engines.qdrant import QdrantStore
from diverset.engines.qdrant_options import QdrantOptions
from diverset.index.filter_language import Compare
from diverset.index.filter_parser import parse
from diverset.index.set_store import IndexSettings


@pytest.fixture(scope="module")
def filled(tmp_path_factory):
    client = EdgeClient(str(tmp_path_factory.mktemp("edge")))
    store = QdrantStore.create(client, "edge", "x", SETTINGS)
    with closing(store):
        store.add([str(n) for n in range(len(METADATA))], some_sets(len(METADATA)), METADATA)
        yield store


def is_bool(value) -> bool:
    return isinstance(value, bool)  # which this package hands to the core as 1 and 0


@settings(max_examples=200, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(trees)
def test_filters_are_equivalent_to_matches(filled, tree):
    text = to_text(tree)
    unsupported = orders_text(tree) or compares_parts_of_text(tree)
    if not unsupported and not any(is_bool(leaf.value) for leaf in leaves(tree)):
        assert filled.count(text) == sum(matches(parse(text), item) for item in METADATA)


@pytest.mark.parametrize("value", [value for value in VALUES if not is_bool(value)])
def test_every_value_is_found_by_equality(filled, value):
    for field in FIELDS:
        text = to_text(Compare(field, "=", value))
        expected = {str(n) for n, item in enumerate(METADATA) if matches(parse(text), item)}
        ids = {hit.id for hit in filled.search(some_sets(1), len(METADATA), text)[0]}
        assert ids == expected


@pytest.mark.slow
def test_approximate_search_finds_the_hits_of_brute_force(tmp_path):
    sets, queries = clustered_sets(2_000, 4, 256), clustered_sets(3, 4, 256, seed=1)
    client = EdgeClient(str(tmp_path))
    shape, options = IndexSettings("m", 4, 256), QdrantOptions(candidates=200)
    with closing(QdrantStore.create(client, "edge", "x", shape, options)) as store:
        store.add([str(item) for item in range(len(sets))], sets)
        assert client.shard.optimize()  # builds the graph over the means
        results = store.search(queries, exact=False)
    for hits, scores in zip(results, exact_scores(queries, sets), strict=True):
        best = np.argsort(-scores, kind="stable")[:10]
        assert [hit.id for hit in hits] == [str(item) for item in best]
        assert [hit.score for hit in hits] == pytest.approx(scores[best].tolist(), abs=1e-5)
