"""The queries and filters of `QdrantStore` in Qdrant's own core, which servers run as well."""

from contextlib import closing

import numpy as np
import pytest
from edge_support import EdgeClient
from filter_support import FIELDS, METADATA, VALUES, leaves, orders_text, trees, written
from hypothesis import HealthCheck, given, settings
from store_support import SETTINGS, clustered_sets, exact_scores, some_sets

from diverset.engines.qdrant import QdrantStore
from diverset.engines.qdrant_options import QdrantOptions
from diverset.index.base import Settings
from diverset.index.where import Compare, matches, parse


@pytest.fixture(scope="module")
def filled(tmp_path_factory):
    client = EdgeClient(str(tmp_path_factory.mktemp("edge")))
    store = QdrantStore.create(client, "edge", "x", SETTINGS, QdrantOptions(candidates=0))
    with closing(store):
        store.add([str(n) for n in range(len(METADATA))], some_sets(len(METADATA)), METADATA)
        yield store


def is_truth(value) -> bool:
    return isinstance(value, bool)  # which this package hands to the core as 1 and 0


@settings(max_examples=200, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(trees)
def test_filters_mean_what_they_say(filled, tree):
    text = written(tree)
    if not orders_text(tree) and not any(is_truth(leaf.value) for leaf in leaves(tree)):
        assert filled.count(text) == sum(matches(parse(text), one) for one in METADATA)


@pytest.mark.parametrize("value", [value for value in VALUES if not is_truth(value)])
def test_every_kind_of_value_is_found_by_itself(filled, value):
    for field in FIELDS:
        text = written(Compare(field, "=", value))
        wanted = {str(n) for n, one in enumerate(METADATA) if matches(parse(text), one)}
        found = {hit.id for hit in filled.search(some_sets(1), len(METADATA), text)[0]}
        assert found == wanted


@pytest.mark.slow
def test_candidates_of_many_sets_are_scored_as_by_brute_force(tmp_path):
    sets, queries = clustered_sets(2_000, 4, 256), clustered_sets(3, 4, 256, seed=1)
    client = EdgeClient(str(tmp_path))
    shape, options = Settings("m", 4, 256), QdrantOptions(candidates=200)
    with closing(QdrantStore.create(client, "edge", "x", shape, options)) as store:
        store.add([str(item) for item in range(len(sets))], sets)
        assert client.shard.optimize()  # builds the graph over the means
        found = store.search(queries)
    for hits, scores in zip(found, exact_scores(queries, sets), strict=True):
        best = np.argsort(-scores, kind="stable")[:10]
        assert [hit.id for hit in hits] == [str(item) for item in best]
        assert [hit.score for hit in hits] == pytest.approx(scores[best].tolist(), abs=1e-5)
