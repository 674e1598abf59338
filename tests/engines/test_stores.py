"""What every store promises, the embedded index and both engines, against brute force."""

from contextlib import closing
from dataclasses import replace

import numpy as np
import pytest
import torch
from store_support import SETTINGS, exact_scores, some_sets

from diverset.engines import create_store, open_store, store_exists
from diverset.errors import EngineError, InputError, OptionError, ShapeError
from diverset.similarity import smooth_chamfer

IDS = [f"item {number:03d}" for number in range(40)]
SETS = some_sets(40)
METADATA = [{"number": number, "even": number % 2 == 0} for number in range(40)]


@pytest.fixture
def store(any_address):
    with closing(create_store(any_address(), SETTINGS)) as made:
        made.add(IDS, SETS, METADATA)
        yield made


def brute_force(queries: np.ndarray, k: int, items=range(40)) -> list[list[tuple[str, float]]]:
    scores = exact_scores(queries, SETS)
    return [
        [(IDS[item], row[item]) for item in sorted(items, key=lambda item: -row[item])[:k]]
        for row in scores
    ]


@pytest.mark.parametrize("elements", [1, 3, 5])
def test_search_is_exact_by_default(store, elements):
    queries = some_sets(3, elements, seed=1)
    for hits, expected in zip(store.search(queries, 7), brute_force(queries, 7), strict=True):
        assert [hit.id for hit in hits] == [item for item, _ in expected]
        assert [hit.score for hit in hits] == pytest.approx([s for _, s in expected], abs=1e-5)
        assert [hit.metadata for hit in hits] == [METADATA[IDS.index(item)] for item, _ in expected]


def test_contributions_of_hits_equal_the_gradient(store):
    query = some_sets(1, 2, seed=2)
    hit = store.search(query, 1)[0][0]
    stored = SETS[IDS.index(hit.id)]
    np.testing.assert_allclose(hit.cosines, query[0] @ stored.T, atol=1e-6)
    varied = torch.from_numpy(query).double().requires_grad_()
    smooth_chamfer(varied, torch.from_numpy(stored)[None].double()).sum().backward()
    # By the chain rule over the cosines, d score / d query is contributions @ elements.
    np.testing.assert_allclose(hit.contributions @ stored, varied.grad[0].numpy(), atol=1e-6)
    assert hit.contributions.sum() == pytest.approx(1) and (hit.contributions >= 0).all()


def test_filters_apply_before_the_top_k(store):
    queries = some_sets(2, seed=3)
    items = [number for number in range(40) if number >= 10 and number % 2]
    for hits, expected in zip(
        store.search(queries, 5, "number >= 10 and even = false"),
        brute_force(queries, 5, items),
        strict=True,
    ):
        assert [hit.id for hit in hits] == [item for item, _ in expected]
    assert store.search(queries, 5, "number > 1000") == [[], []]
    assert store.count("number < 10") == 10 and store.count() == 40


def test_adding_an_existing_id_replaces_the_item(store):
    store.add(IDS[:2], SETS[2:4], [{"new": True}, {}])
    store.add(IDS[:2], SETS[2:4], [{"new": True}, {}])
    assert store.count() == 40
    part = next(store.walk(2))
    assert part.ids == IDS[:2] and list(part.metadata) == [{"new": True}, {}]
    np.testing.assert_array_equal(part.sets, SETS[2:4])


def test_delete_returns_the_number_of_existing_items(store):
    assert store.delete([IDS[0], "nobody", IDS[0], IDS[5], "\0", "\ud800"]) == 2
    assert store.delete([IDS[0]]) == 0 and store.delete([]) == 0 and store.count() == 38
    with pytest.raises(InputError, match="the string"):
        store.delete(IDS[0])


def test_walk_returns_all_items_ordered_by_id(any_address):
    ids = ["b", "a", "ä", "Z", "z", "a b", "'; DROP", "\U0001f600", "%s", "{}"]
    metadata = [
        {"n": 2**53, "x": 1e300, "y": -0.1, "t": "q\"'\\%s", "b": True, "nothing": None},
        *({"i": number} for number in range(9)),
    ]
    with closing(create_store(any_address(), SETTINGS)) as store:
        store.add(ids, SETS[:10], metadata)
        parts = list(store.walk(3))
    assert [len(part.ids) for part in parts] == [3, 3, 3, 1]
    walked = [item for part in parts for item in part.ids]
    assert walked == sorted(ids)
    for part in parts:
        for item, elements, fields in zip(part.ids, part.sets, part.metadata, strict=True):
            np.testing.assert_array_equal(elements, SETS[ids.index(item)])
            assert fields == metadata[ids.index(item)]


def test_a_store_persists_after_close(any_address):
    location = any_address()
    assert not store_exists(location)
    with closing(create_store(location, SETTINGS)) as store:
        store.add(IDS, SETS)
    assert store_exists(location)
    with closing(open_store(location, model=SETTINGS.model)) as store:
        assert store.settings == SETTINGS and store.count() == 40
        assert store.search(SETS[:1], 1)[0][0].id == IDS[0]


def test_k_may_exceed_the_number_of_items_but_not_be_below_one(store):
    assert len(store.search(SETS[:1], 1000)[0]) == 40
    for k in (0, -1, True, 2.0):
        with pytest.raises(OptionError, match="k is"):
            store.search(SETS[:1], k)
    assert store.search(SETS[:0]) == []


def test_an_empty_store_returns_no_hits(any_address):
    with closing(create_store(any_address(), SETTINGS)) as store:
        assert store.search(SETS[:2]) == [[], []] and store.count() == 0
        assert list(store.walk()) == [] and store.delete(["a"]) == 0


def broken(value: float) -> np.ndarray:
    sets = SETS[:2].copy()
    sets[1, 2, 0] = value
    return sets


@pytest.mark.parametrize(
    ("ids", "sets", "metadata", "error", "words"),
    [
        (["a"], some_sets(1, 4), None, ShapeError, "have 4 elements"),
        (["a"], some_sets(1, 3, 9), None, ShapeError, "dimension 9"),
        (["a"], SETS[0], None, ShapeError, "has shape"),
        (["a", "b"], broken(np.nan), None, InputError, "norm nan"),
        (["a", "b"], broken(np.inf), None, InputError, "norm inf"),
        (["a", "b"], 2 * SETS[:2], None, InputError, "norm 2, not 1"),
        (["a"], np.ones((1, 3, 8), dtype=int), None, InputError, "holds int64"),
        (["a", "a"], SETS[:2], None, InputError, "duplicate id 'a'"),
        (["a", 3], SETS[:2], None, InputError, "cannot be stored"),
        (["a", ""], SETS[:2], None, InputError, "cannot be stored"),
        (["a", "b\0"], SETS[:2], None, InputError, "NUL"),
        (["a", "\ud800"], SETS[:2], None, InputError, "surrogate"),
        (["a"], SETS[:2], None, ShapeError, "1 ids and 2 sets"),
        (["a"], SETS[:1], [{}, {}], ShapeError, "2 metadata"),
        (["a"], SETS[:1], [{"x y": 1}], InputError, "plain name"),
        (["a"], SETS[:1], [{"x": [1]}], InputError, "holds list"),
        (["a"], SETS[:1], [{"x": float("nan")}], InputError, "finite"),
        (["a"], SETS[:1], [{"x": "a\0b"}], InputError, "NUL"),
    ],
)
def test_an_invalid_batch_is_rejected_as_a_whole(store, ids, sets, metadata, error, words):
    with pytest.raises(error, match=words):
        store.add(ids, sets, metadata)
    assert store.count() == 40


def test_engines_reject_integers_that_float64_would_round(address):
    with closing(create_store(address(), SETTINGS)) as store:
        with pytest.raises(InputError, match="store it as text"):
            store.add(["a"], SETS[:1], [{"x": 2**53 + 1}])
        assert store.count() == 0


@pytest.mark.parametrize(
    ("queries", "error"),
    [
        (some_sets(1, 3, 9), ShapeError),
        (SETS[0], ShapeError),
        (broken(np.nan), InputError),
        (3 * SETS[:1], InputError),
    ],
)
def test_invalid_queries_are_rejected(store, queries, error):
    with pytest.raises(error):
        store.search(queries)


def test_a_store_of_another_model_is_rejected(address):
    location = address()
    create_store(location, SETTINGS).close()
    with pytest.raises(EngineError, match="model feedc0de, not 0ther"):
        open_store(location, model="0ther")
    open_store(location).close()  # the rejected call closed it


def test_open_needs_a_store_and_create_needs_none(address):
    location = address()
    with pytest.raises(EngineError, match="diverset store copy"):
        open_store(location)
    create_store(location, SETTINGS).close()
    with pytest.raises(EngineError, match="already"):
        create_store(location, SETTINGS)
    with pytest.raises(OptionError, match="at most 300"):
        create_store(address(), replace(SETTINGS, alpha=1000.0))


@pytest.mark.parametrize("alpha", [0.5, 300.0])
def test_scores_are_right_for_small_and_large_alpha(address, alpha):
    with closing(create_store(address(), replace(SETTINGS, alpha=alpha))) as store:
        store.add(["same", "opposite"], np.stack([SETS[0], -SETS[0]]))
        hits = store.search(SETS[:1])[0]
    expected = exact_scores(SETS[:1], np.stack([SETS[0], -SETS[0]]), alpha)[0]
    assert [hit.score for hit in hits] == pytest.approx(list(expected), abs=1e-5)


def test_approximate_search_scores_the_candidates_with_the_nearest_means(address):
    queries = some_sets(2, seed=4)
    with closing(create_store(address(candidates=30), SETTINGS)) as store:
        store.add(IDS, SETS, METADATA)
        results = store.search(queries, 3, exact=False)
        few = store.search(queries, 40, exact=False)
    means = queries.mean(axis=1) @ SETS.mean(axis=1).T
    for hits, row, best in zip(results, means, exact_scores(queries, SETS), strict=True):
        near = np.argsort(-row)[:30]
        expected = sorted(near, key=lambda item: -best[item])[:3]
        assert [hit.id for hit in hits] == [IDS[item] for item in expected]
    assert [len(hits) for hits in few] == [40, 40]  # k beyond the candidates
