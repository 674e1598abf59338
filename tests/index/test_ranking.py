"""From candidates to hits: both ways of scoring, what is kept between calls, and the hit itself."""

import pickle
from dataclasses import FrozenInstanceError, asdict, replace

import numpy as np
import pytest
from index.making import SETTINGS, make_index, make_sets

from diverset.index import SetIndex, scan, scoring, truth, upkeep
from diverset.index.explain import contributions_of, explain_cosines, smooth_chamfer_of


def found(index, queries, **options):
    return [[(hit.id, hit.score) for hit in hits] for hits in index.search(queries, **options)]


@pytest.mark.parametrize("alpha", [0.01, 16.0, 1e4])
def test_scores_and_contributions_are_those_of_the_formulas(alpha):
    random = np.random.default_rng(0)
    cosines = random.uniform(-1, 1, size=(2, 3, 4, 5))
    explained = explain_cosines(cosines, alpha)
    both = np.zeros_like(cosines)
    for axis in (-2, -1):
        weights = np.exp(alpha * (cosines - cosines.max(axis=axis, keepdims=True)))
        both += weights / weights.sum(axis=axis, keepdims=True) / (2 * cosines.shape[-3 - axis])
    np.testing.assert_allclose(explained.contributions, both, atol=1e-15)
    np.testing.assert_allclose(explained.contributions.sum(axis=(2, 3)), 1)
    largest = cosines.max(axis=-1, keepdims=True), cosines.max(axis=-2, keepdims=True)
    scores = sum(
        (np.log(np.exp(alpha * (cosines - most)).sum(axis=axis)) / alpha).mean(axis=-1)
        + most.mean(axis=(-2, -1))
        for most, axis in zip(largest, (-1, -2), strict=True)
    )
    np.testing.assert_allclose(explained.scores, scores / 2, rtol=1e-12)
    np.testing.assert_array_equal(smooth_chamfer_of(cosines, alpha), explained.scores)
    np.testing.assert_array_equal(contributions_of(cosines, alpha), explained.contributions)


def test_many_candidates_and_few_are_scored_alike(tmp_path, monkeypatch):
    queries = make_sets(6, seed=3)
    with make_index(tmp_path, 200) as index:
        expected = found(index, queries, k=3)  # in float32 first
        monkeypatch.setattr(scoring, "MANY", 1000)
        assert found(index, queries, k=3) == expected


def test_ties_in_float32_are_told_apart(tmp_path):
    base = make_sets(1, seed=5)
    sets = np.repeat(base, 40, axis=0)
    sets[23, 0] += 1e-6 * base[0, 1]  # closer to the query than its copies, by less than a slack
    query = base + 1e-3 * base[:, [1, 2, 0]]
    query = (query / np.linalg.norm(query, axis=2, keepdims=True)).astype(np.float32)
    with make_index(tmp_path) as index:
        index.add([f"id{n}" for n in range(40)], sets)
        scores = explain_cosines(np.einsum("qd,nsd->nqs", *map(np.double, (query[0], sets))), 16.0)
        best = np.lexsort((np.arange(40), -scores.scores))[:3]
        assert [hit.id for hit in index.search(query, k=3)[0]] == [f"id{n}" for n in best]


def test_sets_are_found_in_several_files(tmp_path, monkeypatch):
    monkeypatch.setattr(upkeep, "TAIL", 20)
    sets = make_sets(70)
    with make_index(tmp_path) as index:
        for start in range(0, 70, 22):
            part = sets[start : start + 22]
            index.add([f"id{start + n}" for n in range(len(part))], part)
        whole = index.view().scan
        assert len(whole.parts) > 2
        asked = np.random.default_rng(0).integers(70, size=(5, 9))
        np.testing.assert_array_equal(whole.sets_at(asked), sets[asked])


def test_lines_of_different_length_are_padded():
    torch = pytest.importorskip("torch")
    lines = [torch.tensor([4, 7]), torch.tensor([], dtype=torch.int64), torch.tensor([1])]
    assert scan.padded(lines).tolist() == [[4, 7], [-1, -1], [1, -1]]
    assert scan.padded([]).shape == (0, 0)


def test_names_are_kept_bounded_and_right(tmp_path, monkeypatch):
    monkeypatch.setattr(truth, "NAMED", 8)
    sets = make_sets(60)
    with make_index(tmp_path, 60, metadata=[{"n": n} for n in range(60)]) as index:
        for n in range(0, 60, 3):
            (hits,) = index.search(sets[n : n + 1], k=5)
            assert all(hit.metadata == {"n": int(hit.id[2:])} for hit in hits)
            assert len(index._truth._named) <= 8
        (first,) = index.search(sets[:1], k=1)[0]
        first.metadata["n"] = "changed by a caller"
        assert index.search(sets[:1], k=1)[0][0].metadata == {"n": 0}
        with SetIndex.open(index.folder) as other:  # its changes reach what is kept here
            other.add(["id0"], sets[:1], [{"n": "new"}])
            assert index.search(sets[:1], k=1)[0][0].metadata == {"n": "new"}
            other.delete(["id0"])
            assert index.search(sets[:1], k=1)[0][0].id != "id0"


def test_a_hit_is_a_plain_value(tmp_path):
    with make_index(tmp_path, 5, metadata=[{"n": n} for n in range(5)]) as index:
        (hit,) = index.search(make_sets(1), k=1)[0]
    assert not hasattr(hit, "nothing")
    assert len(pickle.dumps(hit)) < 2000  # itself, not the other hits of the call
    again = pickle.loads(pickle.dumps(hit))
    assert (again.id, again.score, again.metadata) == (hit.id, hit.score, hit.metadata)
    np.testing.assert_array_equal(again.contributions, hit.contributions)
    assert repr(hit) == f"Hit(id='id0', score={hit.score!r}, metadata={{'n': 0}})"
    assert replace(hit, id="other").cosines is hit.cosines
    assert list(asdict(hit)) == ["id", "score", "metadata", "contributions", "cosines"]
    assert hit.cosines.shape == (SETTINGS.slots, SETTINGS.slots)
    with pytest.raises(FrozenInstanceError):
        hit.score = 0.0
