"""Ten thousand clustered sets: the index and both engines give what brute force gives."""

from contextlib import closing

import numpy as np
import pytest
from store_support import clustered_sets, exact_scores

from diverset.engines import create_store
from diverset.index.set_store import IndexSettings

COUNT, SLOTS, DIM, K = 10_000, 4, 256, 10
SETTINGS = IndexSettings("m", SLOTS, DIM)
IDS = [str(item) for item in range(COUNT)]
pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def collection():
    sets = clustered_sets(COUNT, SLOTS, DIM)
    queries = clustered_sets(2, SLOTS, DIM, seed=1)
    return sets, queries, exact_scores(queries, sets)


def agrees(hits, scores) -> bool:
    best = np.argsort(-scores, kind="stable")[:K]
    assert [hit.id for hit in hits] == [str(item) for item in best]
    assert [hit.score for hit in hits] == pytest.approx(scores[best].tolist(), abs=1e-5)
    return True


def test_the_embedded_index_equals_brute_force(collection, embedded_address):
    sets, queries, scores = collection
    with closing(create_store(embedded_address(), SETTINGS)) as store:
        store.add(IDS, sets)
        assert all(agrees(*pair) for pair in zip(store.search(queries, K), scores, strict=True))


def test_postgres_exact_search_equals_brute_force(collection, postgres_address):
    sets, queries, scores = collection
    with closing(create_store(postgres_address(), SETTINGS)) as store:
        store.add(IDS, sets)
        assert all(agrees(*pair) for pair in zip(store.search(queries, K), scores, strict=True))


def test_qdrant_exact_search_equals_brute_force(collection, quick_qdrant_address):
    sets, queries, scores = collection
    with closing(create_store(quick_qdrant_address(), SETTINGS)) as store:
        store.add(IDS, sets)
        # One query: the local engine takes 0.1 ms for a point and a pair, 15 s for all of them.
        assert agrees(store.search(queries[:1], K)[0], scores[0])


def test_qdrant_approximate_search_finds_the_hits_of_brute_force(collection, quick_qdrant_address):
    sets, queries, scores = collection
    with closing(create_store(quick_qdrant_address(candidates=200), SETTINGS)) as store:
        store.add(IDS, sets)
        assert all(
            agrees(*pair)
            for pair in zip(store.search(queries, K, exact=False), scores, strict=True)
        )
