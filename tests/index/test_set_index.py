"""Exact search is exact: against the formula, for any data, filter, batch and history."""

import numpy as np
import pytest
import torch
from index.index_support import SETTINGS, make_index, make_sets, naive_top

from diverset.index import (
    IndexSettings,
    SetIndex,
    bounds,
    compiled,
    segment_writer,
    torch_search,
)
from diverset.index.database_errors import StaleReadError
from diverset.index.explain import contributions, explain, smooth_chamfer_from_cosines
from diverset.index.set_store import MAX_ALPHA, MIN_ALPHA
from diverset.similarity import smooth_chamfer

pytestmark = pytest.mark.usefixtures("backend")


def search(index, queries, **options):
    return [[(hit.id, hit.score) for hit in hits] for hits in index.search(queries, **options)]


def same(hits, naive):
    assert [item for item, _ in hits] == [f"id{row}" for row, _ in naive]
    np.testing.assert_allclose([s for _, s in hits], [s for _, s in naive], atol=1e-7)


@pytest.mark.parametrize("within", [0.0, 0.3, 3.0])
@pytest.mark.parametrize("query_elements", [1, 3, 5])
def test_exact_search_equals_the_naive_formula(tmp_path, within, query_elements):
    sets = make_sets(300, within=within)
    queries = make_sets(4, seed=1, elements=query_elements)
    with make_index(tmp_path) as index:
        index.add([f"id{n}" for n in range(300)], sets)
        for hits, naive in zip(
            search(index, queries, k=7), naive_top(queries, sets, 7), strict=True
        ):
            same(hits, naive)


@pytest.mark.parametrize("alpha", [MIN_ALPHA, 0.1, 300.0, MAX_ALPHA])
@pytest.mark.parametrize(("elements", "query_elements", "dim"), [(4, 4, 8), (4, 1, 64), (2, 6, 64)])
def test_exact_search_is_exact_for_every_accepted_alpha(
    tmp_path, alpha, elements, query_elements, dim
):
    rng = np.random.default_rng(0)
    sets, queries = (
        (values / np.linalg.norm(values, axis=2, keepdims=True)).astype(np.float32)
        for values in (
            rng.normal(size=(5000, elements, dim)),
            rng.normal(size=(4, query_elements, dim)),
        )
    )
    settings = IndexSettings("m", elements, dim, alpha=alpha)
    with SetIndex.create(tmp_path / "index", settings) as index:
        index.add([str(n) for n in range(5000)], sets)
        assert index.verify() == []
        for query, hits in zip(queries, index.search(queries, k=10), strict=True):
            scores = explain(query, sets, alpha).scores
            expected = np.sort(scores)[::-1][:10]
            assert np.abs(scores[[int(hit.id) for hit in hits]] - expected).max() < 1e-9


def test_segments_merges_and_pruning_keep_search_exact(tmp_path, monkeypatch):
    """Small constants trigger flushes, merges, both bounds and several passes."""
    for module, name, value in (
        (segment_writer, "FLUSH_SIZE", 20),
        (segment_writer, "MERGE_COUNT", 2),
        (segment_writer, "MAX_SEGMENT_ITEMS", 100),
        (torch_search, "SCORED_DIRECTLY", 5),
        (torch_search, "PRUNE_BATCH", 10),
        (torch_search, "CHUNK", 4),
        (torch_search, "WORKSPACE", 3000),
        (compiled, "WORKSPACE", 3000),
        (bounds, "BLOCK", 64),
        (bounds, "MIN_BLOCK_ITEMS", 8),
    ):
        monkeypatch.setattr(module, name, value)
    for within in (0.2, 3.0):
        folder = tmp_path / str(within)
        sets, queries = make_sets(400, within=within), make_sets(5, seed=9)
        with make_index(folder) as index:
            for start in range(0, 400, 33):
                ids = [f"id{n}" for n in range(start, min(start + 33, 400))]
                index.add(ids, sets[start : start + 33])
            assert len(segment_writer.list_segments(index._database)) > 1
            naive = naive_top(queries, sets, 5)
            for hits, best in zip(search(index, queries, k=5), naive, strict=True):
                same(hits, best)
            gone = [f"id{row}" for row, _ in naive[0]]
            assert index.delete([*gone, "never there"]) == 5
            remaining = [n for n in range(400) if f"id{n}" not in gone]
            after = [
                [(remaining[row], score) for row, score in best]
                for best in naive_top(queries, sets[remaining], 5)
            ]
            for _ in range(2):
                for hits, best in zip(search(index, queries, k=5), after, strict=True):
                    same(hits, best)
                assert index.verify() == []
                index.compact()
            assert index.count() == 395


def test_hits_have_contributions_of_all_pairs_of_elements(tmp_path):
    metadata = [{"n": n} for n in range(50)]
    with make_index(tmp_path, 50, metadata=metadata) as index:
        query = make_sets(1, seed=3, elements=2)
        for hit in index.search(query, k=4)[0]:
            assert hit.metadata == {"n": int(hit.id[2:])}
            assert hit.contributions.shape == hit.cosines.shape == (2, 3)
            assert (hit.contributions >= 0).all()
            assert hit.contributions.sum() == pytest.approx(1)
            stored = make_sets(50)[int(hit.id[2:])]
            np.testing.assert_allclose(hit.cosines, query[0] @ stored.T, atol=1e-6)


def test_contributions_equal_the_gradient_of_autograd():
    """Eq. 8 is what autograd finds, through a set whose elements are the unit vectors."""
    cosines = torch.rand(1, 2, 3, dtype=torch.float64, requires_grad=True)
    padded = torch.zeros(1, 2, 1, dtype=torch.float64)
    rest = (1 - cosines.square().sum(dim=2, keepdim=True) / 4).sqrt()
    queries = torch.cat([cosines / 2, rest, padded], dim=2)
    items = torch.eye(3, 5, dtype=torch.float64)[None]
    smooth_chamfer(queries, items, alpha=32.0).sum().backward()
    expected = contributions(cosines.detach().numpy() / 2, 32.0)
    np.testing.assert_allclose(cosines.grad.numpy() * 2, expected, atol=1e-9)


def test_fewer_than_k_hits_if_there_are_fewer_items(tmp_path):
    with make_index(tmp_path) as index:
        assert index.search(make_sets(2), k=5) == [[], []]
        index.add(["a", "b"], make_sets(2))
        assert [len(hits) for hits in index.search(make_sets(3), k=50)] == [2, 2, 2]
        assert index.search(make_sets(0)) == []


def test_equal_scores_are_ordered_by_insertion(tmp_path):
    with make_index(tmp_path) as index:
        index.add(list("dcba"), np.repeat(make_sets(1), 4, axis=0))
        assert [hit.id for hit in index.search(make_sets(1), k=3)[0]] == ["d", "c", "b"]


def test_settings_are_stored_with_the_index(tmp_path):
    settings = IndexSettings(model="m", elements=2, dim=5, alpha=7.5)
    SetIndex.create(tmp_path / "x", settings).close()
    with SetIndex.open(tmp_path / "x", model="m") as index:
        assert index.settings == settings != SETTINGS
        index.add(["a"], make_sets(1, elements=2, dim=5))
        assert index.search(make_sets(1, elements=2, dim=5))[0][0].score == pytest.approx(
            smooth_chamfer_from_cosines(
                np.einsum("id,jd->ij", *make_sets(1, elements=2, dim=5).repeat(2, 0))[None], 7.5
            )[0],
            abs=1e-6,
        )


def test_search_by_ranks_all_items_by_any_score_function(tmp_path):
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
        assert index.search_by(query, lambda c: c[:, 0, 0], filter="n > 1000") == []


def test_get_and_sample_return_stored_sets(tmp_path):
    with make_index(tmp_path, 30, metadata=[{"n": n} for n in range(30)]) as index:
        records = index.get(["id4", "nobody", "id2"])
        assert records.ids == ["id4", "id2"] and records.metadata == [{"n": 4}, {"n": 2}]
        np.testing.assert_array_equal(records.sets, make_sets(30)[[4, 2]])
        index.delete([f"id{n}" for n in range(10, 30)])
        sample = index.sample(100)
        assert sorted(sample[:, 0, 0]) == sorted(make_sets(30)[:10, 0, 0])
        assert index.sample(3).shape == (3, 3, 16)


@pytest.mark.parametrize(
    "call",
    [
        lambda index: index.search(make_sets(1)),
        lambda index: index.search_by(make_sets(1)[0], lambda cosines: cosines.max(axis=(1, 2))),
        lambda index: index.get(["id1"]).ids,
        lambda index: index.sample(3).tolist(),
        lambda index: index.count(),
    ],
)
def test_reads_are_repeated_if_the_index_changes_meanwhile(tmp_path, monkeypatch, call):
    with make_index(tmp_path, 20) as index:
        expected, raised = call(index), []

        def change_once(_: object) -> None:
            if not raised:
                raised.append(True)
                raise StaleReadError("written to during the call")

        monkeypatch.setattr(index._database, "_check_current", change_once)
        assert call(index) == expected
        assert raised
