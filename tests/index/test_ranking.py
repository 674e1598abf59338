"""From candidates to hits: scores, cached ids and metadata, and the hit itself."""

import pickle
from dataclasses import FrozenInstanceError, replace

import numpy as np
import pytest
from index.index_support import SETTINGS, make_index, make_sets

from diverset.index import SetIndex, item_database, scan, scoring, segment_writer
from diverset.index.explain import contributions, explain, smooth_chamfer_from_cosines


def search(index, queries, **options):
    return [[(hit.id, hit.score) for hit in hits] for hits in index.search(queries, **options)]


@pytest.mark.parametrize("alpha", [0.01, 16.0, 1e4])
def test_scores_and_contributions_equal_the_formulas(alpha):
    rng = np.random.default_rng(0)
    cosines = rng.uniform(-1, 1, size=(2, 3, 4, 5))
    pairs = np.zeros_like(cosines)
    scores = np.zeros(cosines.shape[:2])
    for axis in (-2, -1):
        largest = cosines.max(axis=axis, keepdims=True)
        weights = np.exp(alpha * (cosines - largest))
        sums = weights.sum(axis=axis, keepdims=True)
        pairs += weights / sums / (2 * cosines.shape[-3 - axis])
        scores += (largest + np.log(sums) / alpha).mean(axis=(-2, -1)) / 2
    np.testing.assert_allclose(smooth_chamfer_from_cosines(cosines, alpha), scores, rtol=1e-9)
    np.testing.assert_allclose(contributions(cosines, alpha), pairs, atol=1e-12)
    np.testing.assert_allclose(contributions(cosines, alpha).sum(axis=(2, 3)), 1)


def test_float32_preselection_does_not_change_the_hits(tmp_path, monkeypatch):
    monkeypatch.setattr(scan, "load_kernel", lambda: None)
    queries = make_sets(6, seed=3)
    with make_index(tmp_path, 200) as index:
        expected = search(index, queries, k=3)
        monkeypatch.setattr(scoring, "PRESELECT_FACTOR", 1000)  # float64 for all candidates
        assert search(index, queries, k=3) == expected


def test_items_that_float32_cannot_tell_apart_are_ordered_in_float64(tmp_path):
    base = make_sets(1, seed=5)
    sets = np.repeat(base, 40, axis=0)
    sets[23, 0] += 1e-6 * base[0, 1]  # closer to the query by less than the rounding margin
    query = base + 1e-3 * base[:, [1, 2, 0]]
    query = (query / np.linalg.norm(query, axis=2, keepdims=True)).astype(np.float32)
    with make_index(tmp_path) as index:
        index.add([f"id{n}" for n in range(40)], sets)
        scores = explain(query[0], sets, 16.0).scores
        best = np.lexsort((np.arange(40), -scores))[:3]
        assert [hit.id for hit in index.search(query, k=3)[0]] == [f"id{n}" for n in best]


def test_sets_are_gathered_from_several_segments(tmp_path, monkeypatch):
    monkeypatch.setattr(segment_writer, "FLUSH_SIZE", 20)
    sets = make_sets(70)
    with make_index(tmp_path) as index:
        for start in range(0, 70, 22):
            part = sets[start : start + 22]
            index.add([f"id{start + n}" for n in range(len(part))], part)
        current = index.view().scan
        assert len(current.parts) > 2
        positions = np.random.default_rng(0).integers(70, size=(5, 9))
        np.testing.assert_array_equal(current.gather_sets(positions), sets[positions])


def test_cached_metadata_is_bounded_and_follows_changes(tmp_path, monkeypatch):
    monkeypatch.setattr(item_database, "CACHED_ITEMS", 8)
    sets = make_sets(60)
    with make_index(tmp_path, 60, metadata=[{"n": n} for n in range(60)]) as index:
        for n in range(0, 60, 3):
            (hits,) = index.search(sets[n : n + 1], k=5)
            assert all(hit.metadata == {"n": int(hit.id[2:])} for hit in hits)
            assert len(index._database._cache) <= 8
        (first,) = index.search(sets[:1], k=1)[0]
        first.metadata["n"] = "changed by a caller"
        assert index.search(sets[:1], k=1)[0][0].metadata == {"n": 0}
        with SetIndex.open(index.folder) as other:
            other.add(["id0"], sets[:1], [{"n": "new"}])
            assert index.search(sets[:1], k=1)[0][0].metadata == {"n": "new"}
            other.delete(["id0"])
            assert index.search(sets[:1], k=1)[0][0].id != "id0"


def test_a_hit_is_a_frozen_value_that_can_be_pickled(tmp_path):
    with make_index(tmp_path, 5, metadata=[{"n": n} for n in range(5)]) as index:
        (hit,) = index.search(make_sets(1), k=1)[0]
    assert len(pickle.dumps(hit)) < 2000  # without the other hits of the call
    copy = pickle.loads(pickle.dumps(hit))
    assert copy == hit
    np.testing.assert_array_equal(copy.contributions, hit.contributions)
    assert repr(hit) == f"Hit(id='id0', score={hit.score!r}, metadata={{'n': 0}})"
    assert replace(hit, id="other").cosines is hit.cosines
    assert hit.cosines.shape == (SETTINGS.elements, SETTINGS.elements)
    with pytest.raises(FrozenInstanceError):
        hit.score = 0.0
