"""The fast mode: its recall is what was measured, and changes of the index reach it."""

from collections import Counter
from types import SimpleNamespace

import numpy as np
import pytest
from index.making import make_index, make_sets

from diverset import errors
from diverset.errors import IndexFileError, MissingExtraError, OptionError
from diverset.index import SetIndex, embedded, tune
from diverset.index.fast import Plan

pytest.importorskip("faiss")


def ids(index, queries, **options):
    return [[hit.id for hit in hits] for hits in index.search(queries, **options)]


def test_tuning_reaches_the_recall_and_is_kept(tmp_path):
    queries = make_sets(60, seed=7)
    with make_index(tmp_path, 800) as index:
        tuned = index.tune(queries, recall=0.95, k=5)
        assert tuned.plan == index.plan
        assert tuned.plan.queries == 30
        assert "recall@5" in str(tuned)
        fast, exact = (index.search(queries, k=5, exact=way) for way in (False, True))
        assert tune.recalls(fast, exact).mean() >= 0.9
        for one, other in zip(fast, exact, strict=True):
            scores = {hit.id: hit.score for hit in other}
            wanted = [scores.get(hit.id, hit.score) for hit in one]
            assert [hit.score for hit in one] == pytest.approx(wanted, abs=1e-6)
            assert [hit.score for hit in one] == sorted((hit.score for hit in one), reverse=True)
            assert one[0].contributions.sum() == pytest.approx(1)
    with SetIndex.open(tmp_path / "index") as index:
        assert index.plan == tuned.plan
        assert ids(index, queries, k=5, exact=False) == [[hit.id for hit in one] for one in fast]


def test_one_disturbed_measurement_does_not_choose(monkeypatch):
    now, seen = [0.0], Counter()
    monkeypatch.setattr(tune, "time", SimpleNamespace(perf_counter=lambda: now[0]))

    def search(queries, plan):
        if plan is not None and len(queries) > 1:
            seen[plan] += 1
            disturbed = plan.effort == 10 and seen[plan] == 1
            now[0] += plan.effort * (1.5 if disturbed else 1)
        return [[SimpleNamespace(id="a")] for _ in queries]

    tuned = tune.choose(search, iter([Plan("means")]), make_sets(8), k=10, wanted=0.9)
    assert (tuned.plan.candidates, tuned.plan.effort, tuned.plan.recall) == (10, 10, 1.0)
    assert len(seen) == len({(one.candidates, one.effort) for one in seen})


def test_sets_without_means_get_a_graph_of_elements(tmp_path, monkeypatch):
    monkeypatch.setattr(tune, "CANDIDATES", (1,))
    random = np.random.default_rng(0)
    sets = random.normal(size=(500, 3, 16))
    sets[:, 1] = -sets[:, 0]  # the mean says nothing about two of the elements
    sets = (sets / np.linalg.norm(sets, axis=2, keepdims=True)).astype(np.float32)
    with make_index(tmp_path) as index:
        index.add([f"id{n}" for n in range(500)], sets)
        tuned = index.tune(sets[:50], recall=1.0, k=3)
        assert tuned.plan.elements
        assert len(list(index.folder.glob("*.graph"))) == 2
        found = ids(index, sets[:50], k=1, exact=False)
        assert np.mean([one == [f"id{n}"] for n, one in enumerate(found)]) > 0.9


def test_what_is_added_and_deleted_later_counts(tmp_path):
    with make_index(tmp_path, 300) as index:
        index.tune(recall=0.9)
        new = make_sets(3, seed=50)
        index.add(["new0", "new1", "new2"], new)
        assert [one[0] for one in ids(index, new, exact=False)] == ["new0", "new1", "new2"]
        index.delete(["new1", "id4"])
        index.add(["id5"], new[:1])
        found = ids(index, np.concatenate([new, make_sets(300)[4:6]]), exact=False)
        assert not {"new1", "id4"} & {one for some in found for one in some}
        assert all(len(set(some)) == len(some) == 10 for some in found)
        index.compact()
        assert ids(index, new, exact=False)[0][:2] == ["new0", "id5"]
        index.tune(recall=0.9)
        assert set(ids(index, new, exact=False)[0][:2]) == {"new0", "id5"}
        assert len(list(index.folder.glob("*.graph"))) == 1


def test_a_filter_is_answered_exactly(tmp_path):
    with make_index(tmp_path, 300, metadata=[{"n": n} for n in range(300)]) as index:
        index.tune()
        query = make_sets(1, seed=8)
        assert ids(index, query, where="n < 9", exact=False) == ids(index, query, where="n < 9")


def test_as_many_as_asked_for_though_the_nearest_are_deleted(tmp_path):
    with make_index(tmp_path, 1000) as index:
        index.tune(recall=0.5)
        queries = np.concatenate([make_sets(1), -make_sets(1)])
        index.delete([hit.id for hit in index.search(queries[:1], k=700)[0]])
        fast, exact = (index.search(queries, exact=way) for way in (False, True))
        assert [len(hits) for hits in fast] == [10, 10]
        assert [hit.id for hit in fast[0]] == [hit.id for hit in exact[0]]
        assert len(index.search(queries, k=900, exact=False)[0]) == 300


def test_tuning_twice_at_once_leaves_a_plan_that_works(tmp_path, monkeypatch):
    with make_index(tmp_path, 300) as index, SetIndex.open(index.folder) as other:
        save = embedded.save_plan

        def slowly(truth, plan):
            monkeypatch.setattr(embedded, "save_plan", save)
            other.tune(k=5)
            save(truth, plan)

        monkeypatch.setattr(embedded, "save_plan", slowly)
        with pytest.raises(IndexFileError, match="tuned by another process"):
            index.tune(k=5)
        with SetIndex.open(index.folder) as reader:
            assert len(reader.search(make_sets(1), exact=False)[0]) == 10


def test_a_reader_that_is_outrun_by_tuning_reads_the_plan_again(tmp_path, monkeypatch):
    with make_index(tmp_path, 300) as index, SetIndex.open(index.folder) as reader:
        index.tune(k=5)
        need = embedded.need_plan

        def racing(truth):
            plan = need(truth)
            monkeypatch.setattr(embedded, "need_plan", need)
            index.tune(k=5)
            return plan

        monkeypatch.setattr(embedded, "need_plan", racing)
        assert len(reader.search(make_sets(1), exact=False)[0]) == 10


def test_refusals(tmp_path, monkeypatch):
    with make_index(tmp_path) as index:
        with pytest.raises(OptionError, match="is empty"):
            index.tune()
        index.add(["a", "b"], make_sets(2))
        with pytest.raises(OptionError, match="run diverset index tune"):
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
