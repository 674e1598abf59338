"""Ten thousand clustered sets: both engines give what brute force gives."""

from contextlib import closing

import numpy as np
import pytest
from store_support import clustered_sets, exact_scores

from diverset.engines import create_store
from diverset.index.base import Settings

COUNT, SLOTS, DIM, K = 10_000, 4, 256, 10
pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def collection():
    sets = clustered_sets(COUNT, SLOTS, DIM)
    queries = clustered_sets(3, SLOTS, DIM, seed=1)
    return sets, queries, exact_scores(queries, sets)


def agrees(hits, scores) -> bool:
    best = np.argsort(-scores, kind="stable")[:K]
    assert [hit.id for hit in hits] == [str(item) for item in best]
    assert [hit.score for hit in hits] == pytest.approx(scores[best].tolist(), abs=1e-5)
    return True


def test_postgres_scores_all_rows(collection, postgres_address):
    sets, queries, scores = collection
    settings = Settings("m", SLOTS, DIM)
    with closing(create_store(postgres_address(), settings)) as store:
        store.add([str(item) for item in range(COUNT)], sets)
        assert all(agrees(*one) for one in zip(store.search(queries, K), scores, strict=True))


def test_qdrant_scores_all_points_and_candidates(collection):
    from diverset.engines.qdrant import QdrantStore, connect_locally
    from diverset.engines.qdrant_options import QdrantOptions

    sets, queries, scores = collection
    with closing(connect_locally(":memory:")) as client:
        exact = QdrantOptions(candidates=0)
        store = QdrantStore.create(client, "memory", "x", Settings("m", SLOTS, DIM), exact)
        store.add([str(item) for item in range(COUNT)], sets)
        # The local engine takes a second for a thousand points, so one query only.
        assert agrees(store.search(queries[:1], K)[0], scores[0])
        nearest = QdrantStore.open(client, "memory", "x", QdrantOptions(candidates=500))
        found = nearest.search(queries, K)
        assert all(agrees(*one) for one in zip(found, scores, strict=True))
