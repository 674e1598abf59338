"""Exact search is exact: against the formula, for any data, filter, batch and history."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from index.making import SETTINGS, make_index, make_sets, naive_top

from diverset.index import SetIndex, Settings, bounds, kernel, scan, upkeep
from diverset.index.base import LARGEST_ALPHA, LEAST_ALPHA
from diverset.index.codes import encode, encode_query
from diverset.index.explain import contributions_of, explain, smooth_chamfer_of
from diverset.index.verify import holds
from diverset.similarity import smooth_chamfer


def found(index, queries, **options):
    return [[(hit.id, hit.score) for hit in hits] for hits in index.search(queries, **options)]


def same(hits, naive):
    assert [one for one, _ in hits] == [f"id{at}" for at, _ in naive]
    np.testing.assert_allclose([s for _, s in hits], [s for _, s in naive], atol=1e-7)


@pytest.mark.parametrize("within", [0.0, 0.3, 3.0])
@pytest.mark.parametrize("query_slots", [1, 3, 5])
def test_equals_the_formula(tmp_path, within, query_slots):
    sets = make_sets(300, within=within)
    queries = make_sets(4, seed=1, slots=query_slots)
    with make_index(tmp_path) as index:
        index.add([f"id{n}" for n in range(300)], sets)
        for hits, naive in zip(
            found(index, queries, k=7), naive_top(queries, sets, 7), strict=True
        ):
            same(hits, naive)


@pytest.mark.parametrize("alpha", [LEAST_ALPHA, 0.1, 300.0, LARGEST_ALPHA])
@pytest.mark.parametrize(("slots", "query_slots", "dim"), [(4, 4, 8), (4, 1, 64), (2, 6, 64)])
def test_exact_for_every_alpha_that_is_accepted(tmp_path, alpha, slots, query_slots, dim):
    random = np.random.default_rng(0)
    sets, queries = (
        (given / np.linalg.norm(given, axis=2, keepdims=True)).astype(np.float32)
        for given in (
            random.normal(size=(5000, slots, dim)),
            random.normal(size=(4, query_slots, dim)),
        )
    )
    with SetIndex.create(tmp_path / "index", Settings("m", slots, dim, alpha=alpha)) as index:
        index.add([str(n) for n in range(5000)], sets)
        assert index.verify() == []
        for query, hits in zip(queries, index.search(queries, k=10), strict=True):
            scores = explain(query, sets, alpha).scores
            expected = np.sort(scores)[::-1][:10]
            assert np.abs(scores[[int(hit.id) for hit in hits]] - expected).max() < 1e-9


def test_a_large_k_does_not_slow_later_searches(tmp_path, monkeypatch):
    monkeypatch.setattr(scan, "PORTION", 10)
    monkeypatch.setattr(scan, "SMALL", 5)
    with make_index(tmp_path, 400) as index:
        assert len(index.search(make_sets(1), k=300)[0]) == 300
        assert index.view().scan._bounds is bounds.mean_bounds


def test_memory_for_bounds_is_given_back(tmp_path, monkeypatch):
    monkeypatch.setattr(scan, "KEPT", 0)
    with make_index(tmp_path, 640) as index:
        held = index.view().scan
        for queries in (1, 4, 30):
            index.search(make_sets(queries))
            assert held._space.nbytes <= 16 * 640
        index.search(make_sets(4))
        assert held._space.nbytes == 16 * 640


def test_large_collections_go_through_every_stage(tmp_path, monkeypatch):
    """Small constants, so that files, merges, coarse bounds and several passes all happen."""
    for module, name, value in (
        (upkeep, "TAIL", 20), (upkeep, "FAN", 2), (upkeep, "LARGEST_FILE", 100), (scan, "FEW", 5),
        (scan, "PORTION", 10), (scan, "CHUNK", 4), (scan, "WORKSPACE", 3000), (bounds, "BLOCK", 64),
        (bounds, "FEWEST", 8),
    ):  # fmt: skip
        monkeypatch.setattr(module, name, value)
    for within in (0.2, 3.0):
        folder = tmp_path / str(within)
        sets, queries = make_sets(400, within=within), make_sets(5, seed=9)
        with make_index(folder) as index:
            for start in range(0, 400, 33):
                ids = [f"id{n}" for n in range(start, min(start + 33, 400))]
                index.add(ids, sets[start : start + 33])
            assert len(upkeep.listed(index._truth)) > 1
            naive = naive_top(queries, sets, 5)
            for hits, one in zip(found(index, queries, k=5), naive, strict=True):
                same(hits, one)
            gone = [f"id{at}" for at, _ in naive[0]]
            assert index.delete([*gone, "never there"]) == 5
            kept = [n for n in range(400) if f"id{n}" not in gone]
            after = [[(kept[at], s) for at, s in one] for one in naive_top(queries, sets[kept], 5)]
            for _ in range(2):
                for hits, one in zip(found(index, queries, k=5), after, strict=True):
                    same(hits, one)
                assert index.verify() == []
                index.compact()
            assert index.count() == 395


@given(
    data=st.data(),
    slots=st.integers(1, 4),
    dim=st.sampled_from([1, 3, 8, 24]),
    alpha=st.sampled_from([LEAST_ALPHA, 0.5, 16.0, 100.0, LARGEST_ALPHA]),
)
def test_bounds_hold(data, slots, dim, alpha):
    """Any directions, from spikes to nearly equal elements; any alpha."""
    seed = data.draw(st.integers(0, 10**6))
    random = np.random.default_rng(seed)

    def draw(count, elements):
        sets = random.normal(size=(count, elements, dim)) ** data.draw(st.sampled_from([1, 5]))
        sets = sets + data.draw(st.sampled_from([0, 10])) * random.normal(size=(count, 1, dim))
        unit = sets / np.linalg.norm(sets, axis=2, keepdims=True)
        return (unit * random.uniform(0.99, 1.01, size=(count, elements, 1))).astype(np.float32)

    items, queries = draw(20, slots), draw(3, data.draw(st.integers(1, 4)))
    codes = encode(np.arange(20), items, alpha)
    assert holds(codes, torch.from_numpy(items).double(), alpha).all()
    batch = bounds.Batch([encode_query(query) for query in queries], alpha)
    cosines = np.einsum("qid,njd->qnij", queries.astype(float), items.astype(float))
    exact = torch.from_numpy(np.stack([smooth_chamfer_of(one, alpha) for one in cosines]))
    for bound in (bounds.mean_bounds, bounds.element_bounds):
        out = torch.empty(3, 20)
        bound(batch, codes, out)
        assert (out >= exact).all()
    for query, scores in zip(batch.queries, exact, strict=True):
        for fine in (False, True):
            near, margin = bounds.estimates(query, codes, torch.arange(20), alpha, fine)
            assert ((near - scores).abs() <= margin).all()


def test_a_processor_without_integer_products_finds_the_same(tmp_path, monkeypatch):
    queries = make_sets(3, seed=2)
    with make_index(tmp_path, 200) as index:
        expected = found(index, queries)
        monkeypatch.setattr(kernel, "has_integer_product", lambda: False)
        assert found(index, queries) == expected


def test_saturating_products_are_noticed():
    def saturating(queries, codes, out=None):
        return (queries.int() @ codes.int().T).clamp(-32768, 32767)

    assert not kernel.has_integer_product(saturating)


def test_hits_say_which_elements_matched(tmp_path):
    metadata = [{"n": n} for n in range(50)]
    with make_index(tmp_path, 50, metadata=metadata) as index:
        query = make_sets(1, seed=3, slots=2)
        for hit in index.search(query, k=4)[0]:
            assert hit.metadata == {"n": int(hit.id[2:])}
            assert hit.contributions.shape == hit.cosines.shape == (2, 3)
            assert (hit.contributions >= 0).all()
            assert hit.contributions.sum() == pytest.approx(1)
            stored = make_sets(50)[int(hit.id[2:])]
            np.testing.assert_allclose(hit.cosines, query[0] @ stored.T, atol=1e-6)


def test_contributions_are_the_gradient():
    """Eq. 8 is what autograd finds, through a set whose elements are the unit vectors."""
    cosines = torch.rand(1, 2, 3, dtype=torch.float64, requires_grad=True)
    padded = torch.zeros(1, 2, 1, dtype=torch.float64)
    rest = (1 - cosines.square().sum(dim=2, keepdim=True) / 4).sqrt()
    queries = torch.cat([cosines / 2, rest, padded], dim=2)
    items = torch.eye(3, 5, dtype=torch.float64)[None]
    smooth_chamfer(queries, items, alpha=32.0).sum().backward()
    expected = contributions_of(cosines.detach().numpy() / 2, 32.0)
    np.testing.assert_allclose(cosines.grad.numpy() * 2, expected, atol=1e-9)


def test_k_beyond_the_collection_and_an_empty_one(tmp_path):
    with make_index(tmp_path) as index:
        assert index.search(make_sets(2), k=5) == [[], []]
        index.add(["a", "b"], make_sets(2))
        assert [len(hits) for hits in index.search(make_sets(3), k=50)] == [2, 2, 2]
        assert index.search(make_sets(0)) == []


def test_equal_scores_come_in_the_order_of_adding(tmp_path):
    with make_index(tmp_path) as index:
        index.add(list("dcba"), np.repeat(make_sets(1), 4, axis=0))
        assert [hit.id for hit in index.search(make_sets(1), k=3)[0]] == ["d", "c", "b"]


def test_settings_are_kept(tmp_path):
    settings = Settings(model="m", slots=2, dim=5, alpha=7.5)
    SetIndex.create(tmp_path / "x", settings).close()
    with SetIndex.open(tmp_path / "x", model="m") as index:
        assert index.settings == settings != SETTINGS
        index.add(["a"], make_sets(1, slots=2, dim=5))
        assert index.search(make_sets(1, slots=2, dim=5))[0][0].score == pytest.approx(
            smooth_chamfer_of(
                np.einsum("id,jd->ij", *make_sets(1, slots=2, dim=5).repeat(2, 0))[None], 7.5
            )[0],
            abs=1e-6,
        )


def test_any_rule_over_cosines_ranks_everything(tmp_path):
    with make_index(tmp_path, 90, metadata=[{"n": n} for n in range(90)]) as index:
        index.delete(["id7"])
        query = make_sets(1, seed=3)[0]
        hits = index.search_by(query, lambda cosines: cosines.max(axis=(1, 2)), k=5)
        best = (np.einsum("qd,nsd->nqs", query, make_sets(90))).max(axis=(1, 2))
        best[7] = -1
        assert [hit.id for hit in hits] == [f"id{n}" for n in np.argsort(-best)[:5]]
        assert hits[0].score == pytest.approx(best.max(), abs=1e-6)
        few = index.search_by(query, lambda cosines: cosines.max(axis=(1, 2)), 5, "n < 2")
        assert {hit.id for hit in few} == {"id0", "id1"}
        assert index.search_by(query, lambda c: c[:, 0, 0], where="n > 1000") == []


def test_items_can_be_taken_out_again(tmp_path):
    with make_index(tmp_path, 30, metadata=[{"n": n} for n in range(30)]) as index:
        found = index.get(["id4", "nobody", "id2"])
        assert found.ids == ["id4", "id2"] and found.metadata == [{"n": 4}, {"n": 2}]
        np.testing.assert_array_equal(found.sets, make_sets(30)[[4, 2]])
        index.delete([f"id{n}" for n in range(10, 30)])
        some = index.sample(100)
        assert sorted(some[:, 0, 0]) == sorted(make_sets(30)[:10, 0, 0])
        assert index.sample(3).shape == (3, 3, 16)
