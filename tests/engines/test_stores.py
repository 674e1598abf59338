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


def expected(queries: np.ndarray, k: int, chosen=range(40)) -> list[list[tuple[str, float]]]:
    scores = exact_scores(queries, SETS)
    return [
        [(IDS[item], row[item]) for item in sorted(chosen, key=lambda one: -row[one])[:k]]
        for row in scores
    ]


@pytest.mark.parametrize("slots", [1, 3, 5])
def test_hits_are_those_of_brute_force(store, slots):
    queries = some_sets(3, slots, seed=1)
    for hits, wanted in zip(store.search(queries, 7), expected(queries, 7), strict=True):
        assert [hit.id for hit in hits] == [one for one, _ in wanted]
        assert [hit.score for hit in hits] == pytest.approx([s for _, s in wanted], abs=1e-5)
        assert [hit.metadata for hit in hits] == [METADATA[IDS.index(one)] for one, _ in wanted]


def test_hits_say_why(store):
    query = some_sets(1, 2, seed=2)
    hit = store.search(query, 1)[0][0]
    found = SETS[IDS.index(hit.id)]
    np.testing.assert_allclose(hit.cosines, query[0] @ found.T, atol=1e-6)
    varied = torch.from_numpy(query).double().requires_grad_()
    smooth_chamfer(varied, torch.from_numpy(found)[None].double()).sum().backward()
    # By the chain rule over the cosines, d score / d query is contributions @ elements.
    np.testing.assert_allclose(hit.contributions @ found, varied.grad[0].numpy(), atol=1e-6)
    assert hit.contributions.sum() == pytest.approx(1) and (hit.contributions >= 0).all()


def test_filters_come_before_the_best_k(store):
    queries = some_sets(2, seed=3)
    chosen = [number for number in range(40) if number >= 10 and number % 2]
    for hits, wanted in zip(
        store.search(queries, 5, "number >= 10 and even = false"),
        expected(queries, 5, chosen),
        strict=True,
    ):
        assert [hit.id for hit in hits] == [one for one, _ in wanted]
    assert store.search(queries, 5, "number > 1000") == [[], []]
    assert store.count("number < 10") == 10 and store.count() == 40


def test_what_is_added_again_is_replaced(store):
    store.add(IDS[:2], SETS[2:4], [{"new": True}, {}])
    store.add(IDS[:2], SETS[2:4], [{"new": True}, {}])
    assert store.count() == 40
    part = next(store.walk(2))
    assert part.ids == IDS[:2] and list(part.metadata) == [{"new": True}, {}]
    np.testing.assert_array_equal(part.sets, SETS[2:4])


def test_delete_counts_what_was_there(store):
    assert store.delete([IDS[0], "nobody", IDS[0], IDS[5], "\0", "\ud800"]) == 2
    assert store.delete([IDS[0]]) == 0 and store.delete([]) == 0 and store.count() == 38
    with pytest.raises(InputError, match="one string"):
        store.delete(IDS[0])


def test_walking_gives_back_everything_in_order(any_address):
    ids = ["b", "a", "ä", "Z", "z", "a b", "'; DROP", "\U0001f600", "%s", "{}"]
    metadata = [
        {"n": 2**53, "x": 1e300, "y": -0.1, "t": "q\"'\\%s", "b": True, "nothing": None},
        *({"i": number} for number in range(9)),
    ]
    with closing(create_store(any_address(), SETTINGS)) as store:
        store.add(ids, SETS[:10], metadata)
        parts = list(store.walk(3))
    assert [len(part.ids) for part in parts] == [3, 3, 3, 1]
    walked = [one for part in parts for one in part.ids]
    assert walked == sorted(ids)
    for part in parts:
        for one, elements, fields in zip(part.ids, part.sets, part.metadata, strict=True):
            np.testing.assert_array_equal(elements, SETS[ids.index(one)])
            assert fields == metadata[ids.index(one)]


def test_a_store_is_there_when_it_is_opened_again(any_address):
    place = any_address()
    assert not store_exists(place)
    with closing(create_store(place, SETTINGS)) as store:
        store.add(IDS, SETS)
    assert store_exists(place)
    with closing(open_store(place, model=SETTINGS.model)) as store:
        assert store.settings == SETTINGS and store.count() == 40
        assert store.search(SETS[:1], 1)[0][0].id == IDS[0]


def test_k_beyond_the_collection_and_below_one(store):
    assert len(store.search(SETS[:1], 1000)[0]) == 40
    for k in (0, -1, True, 2.0):
        with pytest.raises(OptionError, match="k is"):
            store.search(SETS[:1], k)
    assert store.search(SETS[:0]) == []


def test_an_empty_store_finds_nothing(any_address):
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
        (["a"], some_sets(1, 4), None, ShapeError, "have 4 elements each"),
        (["a"], some_sets(1, 3, 9), None, ShapeError, "9 wide"),
        (["a"], SETS[0], None, ShapeError, "has shape"),
        (["a", "b"], broken(np.nan), None, InputError, "norm nan"),
        (["a", "b"], broken(np.inf), None, InputError, "norm inf"),
        (["a", "b"], 2 * SETS[:2], None, InputError, "norm 2, not 1"),
        (["a"], np.ones((1, 3, 8), dtype=int), None, InputError, "holds int64"),
        (["a", "a"], SETS[:2], None, InputError, "stands twice"),
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
def test_what_cannot_be_stored_is_refused_whole(store, ids, sets, metadata, error, words):
    with pytest.raises(error, match=words):
        store.add(ids, sets, metadata)
    assert store.count() == 40


def test_engines_refuse_whole_numbers_that_json_would_round(address):
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
def test_queries_are_checked(store, queries, error):
    with pytest.raises(error):
        store.search(queries)


def test_a_foreign_model_is_refused_by_name(address):
    place = address()
    create_store(place, SETTINGS).close()
    with pytest.raises(EngineError, match="sets of model feedc0de, not of 0ther"):
        open_store(place, model="0ther")
    open_store(place).close()  # the refused one let go of it


def test_places_that_are_not_there_or_taken(address):
    place = address()
    with pytest.raises(EngineError, match="diverset index copy"):
        open_store(place)
    create_store(place, SETTINGS).close()
    with pytest.raises(EngineError, match="already"):
        create_store(place, SETTINGS)
    with pytest.raises(OptionError, match="at most 300"):
        create_store(address(), replace(SETTINGS, alpha=1000.0))


@pytest.mark.parametrize("alpha", [0.5, 300.0])
def test_any_alpha_that_fits(address, alpha):
    with closing(create_store(address(), replace(SETTINGS, alpha=alpha))) as store:
        store.add(["same", "opposite"], np.stack([SETS[0], -SETS[0]]))
        hits = store.search(SETS[:1])[0]
    wanted = exact_scores(SETS[:1], np.stack([SETS[0], -SETS[0]]), alpha)[0]
    assert [hit.score for hit in hits] == pytest.approx(list(wanted), abs=1e-5)


def test_candidates_are_those_nearest_by_their_means(address):
    queries = some_sets(2, seed=4)
    with closing(create_store(address(candidates=30), SETTINGS)) as store:
        store.add(IDS, SETS, METADATA)
        found = store.search(queries, 3)
        few = store.search(queries, 40)
    means = queries.mean(axis=1) @ SETS.mean(axis=1).T
    for hits, row, best in zip(found, means, exact_scores(queries, SETS), strict=True):
        near = np.argsort(-row)[:30]
        wanted = sorted(near, key=lambda one: -best[one])[:3]
        assert [hit.id for hit in hits] == [IDS[one] for one in wanted]
    assert [len(hits) for hits in few] == [40, 40]  # k beyond the candidates
