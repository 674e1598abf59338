"""Approximate search: it reaches the measured recall and follows changes of the index."""

from collections import Counter
from types import SimpleNamespace

import numpy as np
import pytest
from index.index_support import make_index, make_sets

from diverset import errors
from diverset.errors import IndexFileError, MissingExtraError, OptionError
from diverset.index import SetIndex, set_index, tune
from diverset.index.approximate import Plan

pytest.importorskip("faiss")
pytestmark = pytest.mark.usefixtures("backend")


def ids(index, queries, **options):
    return [[hit.id for hit in hits] for hits in index.search(queries, **options)]


def test_tuning_reaches_the_recall_and_is_stored(tmp_path):
    queries = make_sets(60, seed=7)
    with make_index(tmp_path, 800) as index:
        tuned = index.tune(queries, recall=0.95, k=5)
        assert tuned.plan == index.plan
        assert tuned.plan.queries == 30
        assert "recall@5" in str(tuned)
        fast, exact = (index.search(queries, k=5, exact=way) for way in (False, True))
        assert tune.recalls(fast, exact).mean() >= 0.9
        for hits, best in zip(fast, exact, strict=True):
            scores = {hit.id: hit.score for hit in best}
            expected = [scores.get(hit.id, hit.score) for hit in hits]
            assert [hit.score for hit in hits] == pytest.approx(expected, abs=1e-6)
            assert [hit.score for hit in hits] == sorted((hit.score for hit in hits), reverse=True)
            assert hits[0].contributions.sum() == pytest.approx(1)
    with SetIndex.open(tmp_path / "index") as index:
        assert index.plan == tuned.plan
        assert ids(index, queries, k=5, exact=False) == [[hit.id for hit in hits] for hits in fast]


def test_one_disturbed_timing_does_not_decide_the_plan(monkeypatch):
    now, seen = [0.0], Counter()
    monkeypatch.setattr(tune, "time", SimpleNamespace(perf_counter=lambda: now[0]))

    def search(queries, plan):
        if plan is not None and len(queries) > 1:
            seen[plan] += 1
            disturbed = plan.ef_search == 10 and seen[plan] == 1
            now[0] += plan.ef_search * (1.5 if disturbed else 1)
        return [[SimpleNamespace(id="a")] for _ in queries]

    tuned = tune.choose_plan(search, iter([Plan("means")]), make_sets(8), k=10, target_recall=0.9)
    assert (tuned.plan.candidates, tuned.plan.ef_search, tuned.plan.recall) == (10, 10, 1.0)
    assert len(seen) == len({(plan.candidates, plan.ef_search) for plan in seen})


def test_sets_with_uninformative_means_get_a_graph_of_elements(tmp_path, monkeypatch):
    monkeypatch.setattr(tune, "CANDIDATE_FACTORS", (1,))
    rng = np.random.default_rng(0)
    sets = rng.normal(size=(500, 3, 16))
    sets[:, 1] = -sets[:, 0]  # the mean says nothing about two of the elements
    sets = (sets / np.linalg.norm(sets, axis=2, keepdims=True)).astype(np.float32)
    with make_index(tmp_path) as index:
        index.add([f"id{n}" for n in range(500)], sets)
        tuned = index.tune(sets[:50], recall=1.0, k=3)
        assert tuned.plan.elements
        assert len(list(index.folder.glob("*.graph"))) == 2
        results = ids(index, sets[:50], k=1, exact=False)
        assert np.mean([row == [f"id{n}"] for n, row in enumerate(results)]) > 0.9


def test_items_added_and_deleted_after_tuning_are_respected(tmp_path):
    with make_index(tmp_path, 300) as index:
        index.tune(recall=0.9)
        new = make_sets(3, seed=50)
        index.add(["new0", "new1", "new2"], new)
        assert [row[0] for row in ids(index, new, exact=False)] == ["new0", "new1", "new2"]
        index.delete(["new1", "id4"])
        index.add(["id5"], new[:1])
        results = ids(index, np.concatenate([new, make_sets(300)[4:6]]), exact=False)
        assert not {"new1", "id4"} & {item for row in results for item in row}
        assert all(len(set(row)) == len(row) == 10 for row in results)
        index.compact()
        assert ids(index, new, exact=False)[0][:2] == ["new0", "id5"]
        index.tune(recall=0.9)
        assert set(ids(index, new, exact=False)[0][:2]) == {"new0", "id5"}
        assert len(list(index.folder.glob("*.graph"))) == 1


def test_approximate_search_with_a_filter_is_exact(tmp_path):
    with make_index(tmp_path, 300, metadata=[{"n": n} for n in range(300)]) as index:
        index.tune()
        query = make_sets(1, seed=8)
        assert ids(index, query, filter="n < 9", exact=False) == ids(index, query, filter="n < 9")


def test_k_hits_are_returned_even_if_the_nearest_are_deleted(tmp_path):
    with make_index(tmp_path, 1000) as index:
        index.tune(recall=0.5)
        queries = np.concatenate([make_sets(1), -make_sets(1)])
        index.delete([hit.id for hit in index.search(queries[:1], k=700)[0]])
        fast, exact = (index.search(queries, exact=way) for way in (False, True))
        assert [len(hits) for hits in fast] == [10, 10]
        assert [hit.id for hit in fast[0]] == [hit.id for hit in exact[0]]
        assert len(index.search(queries, k=900, exact=False)[0]) == 300


def test_concurrent_tuning_leaves_a_working_plan(tmp_path, monkeypatch):
    with make_index(tmp_path, 300) as index, SetIndex.open(index.folder) as other:
        save = set_index.save_plan

        def slowly(truth, plan):
            monkeypatch.setattr(set_index, "save_plan", save)
            other.tune(k=5)
            save(truth, plan)

        monkeypatch.setattr(set_index, "save_plan", slowly)
        with pytest.raises(IndexFileError, match="tuned by another process"):
            index.tune(k=5)
        with SetIndex.open(index.folder) as reader:
            assert len(reader.search(make_sets(1), exact=False)[0]) == 10


def test_a_reader_reloads_the_plan_if_another_process_tunes(tmp_path, monkeypatch):
    with make_index(tmp_path, 300) as index, SetIndex.open(index.folder) as reader:
        index.tune(k=5)
        need = set_index.require_plan

        def racing(truth):
            plan = need(truth)
            monkeypatch.setattr(set_index, "require_plan", need)
            index.tune(k=5)
            return plan

        monkeypatch.setattr(set_index, "require_plan", racing)
        assert len(reader.search(make_sets(1), exact=False)[0]) == 10


def test_errors_of_tuning_and_approximate_search_say_what_to_do(tmp_path, monkeypatch):
    with make_index(tmp_path) as index:
        with pytest.raises(OptionError, match="is empty"):
            index.tune()
        index.add(["a", "b"], make_sets(2))
        with pytest.raises(OptionError, match="run diverset store tune"):
            index.search(make_sets(1), exact=False)
        with pytest.raises(OptionError, match="recall is 2"):
            index.tune(recall=2)
        with pytest.raises(OptionError, match="1 queries are too few"):
            index.tune(make_sets(1))
        index.tune()
        assert len(ids(index, make_sets(1), k=9, exact=False)[0]) == 2
    (graph,) = (tmp_path / "index").glob("*.graph")
    graph.write_bytes(graph.read_bytes()[:100])
    with SetIndex.open(tmp_path / "index") as index:
        with pytest.raises(IndexFileError, match="tune again"):
            index.search(make_sets(1), exact=False)
        monkeypatch.setattr(errors.importlib, "import_module", _no_faiss)
        with pytest.raises(MissingExtraError, match=r"diverset\[index\]"):
            index.search(make_sets(1), exact=False)
        assert index.search(make_sets(1))[0][0].id == "a"


def _no_faiss(name):
    raise ImportError(name, name=name)
