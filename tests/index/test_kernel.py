"""The compiled kernel: equal to the formula for all shapes, instruction sets and threads."""

import ctypes
import os

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from index.index_support import make_index, make_sets

from diverset.index import compiled, scan
from diverset.index.block_checks import DamagedSegmentError
from diverset.index.compiled import FOLDER, CompiledSearch, load_kernel
from diverset.index.explain import explain
from diverset.index.quantized_codes import quantize
from diverset.index.set_store import MAX_ALPHA, MIN_ALPHA
from diverset.runtime import threads
from diverset.runtime.compiled import INSTRUCTION_SETS

if load_kernel() is None:
    pytest.skip("the kernel is not built; run make kernel", allow_module_level=True)


def kernels():
    for name in INSTRUCTION_SETS:
        if (FOLDER / f"{name}.so").exists():
            kernel = ctypes.CDLL(str(FOLDER / f"{name}.so"))
            kernel.diverset_free.argtypes = [ctypes.c_void_p]
            if kernel.diverset_supported():
                yield pytest.param(kernel, id=name)


def unit_sets(rng, count, elements, dim, spread=1.0):
    sets = rng.normal(size=(count, 1, dim)) + spread * rng.normal(size=(count, elements, dim))
    return (sets / np.linalg.norm(sets, axis=2, keepdims=True)).astype(np.float32)


def split(sets, alpha, cuts):
    starts = [0, *cuts, len(sets)]
    pairs = zip(starts, starts[1:], strict=False)
    return [quantize(np.arange(a, b), sets[a:b], alpha) for a, b in pairs if b > a]


def check(found, queries, sets, k, alpha, allowed=None):
    """Every hit is one of the k best by the formula, with its score and cosines."""
    for n, query in enumerate(queries):
        right = explain(query, sets, alpha)
        scores = right.scores if allowed is None else np.where(allowed, right.scores, -np.inf)
        count = min(k, len(sets) if allowed is None else int(allowed.sum()))
        assert found.counts[n] == count
        positions = found.positions[n, :count]
        assert len(set(positions.tolist())) == count
        np.testing.assert_allclose(scores[positions], np.sort(scores)[::-1][:count], atol=1e-9)
        np.testing.assert_allclose(found.scores[n, :count], scores[positions], atol=1e-9)
        np.testing.assert_allclose(found.cosines[n, :count], right.cosines[positions], atol=1e-12)


@pytest.mark.parametrize("kernel", list(kernels()))
@settings(max_examples=60)
@given(
    seed=st.integers(0, 10**6),
    elements=st.integers(1, 6),
    query_elements=st.integers(1, 9),
    dim=st.sampled_from([1, 3, 16, 63, 64, 65, 200, 256, 384, 512]),
    alpha=st.sampled_from([MIN_ALPHA, 0.5, 16.0, 300.0, MAX_ALPHA]),
    items=st.integers(1, 300),
    k=st.sampled_from([1, 2, 10, 400]),
    spread=st.sampled_from([0.01, 0.3, 3.0]),
)
def test_search_equals_the_formula(
    kernel, seed, elements, query_elements, dim, alpha, items, k, spread
):
    rng = np.random.default_rng(seed)
    sets = unit_sets(rng, items, elements, dim, spread)
    queries = unit_sets(rng, int(rng.integers(1, 4)), query_elements, dim, spread)
    parts = split(sets, alpha, np.sort(rng.integers(0, items, size=2)).tolist())
    search = CompiledSearch(kernel, parts, alpha)
    allowed = rng.random(items) < rng.random() if rng.random() < 0.5 else None
    found = search.search(queries, min(k, items), allowed)
    check(found, queries, sets, min(k, items), alpha, allowed)


@pytest.mark.parametrize("kernel", list(kernels()))
@pytest.mark.parametrize("workers", [1, 3, 16])
@pytest.mark.parametrize("spread", [0.1, 1.0, 5.0])
def test_any_number_of_threads_finds_the_same(kernel, workers, spread, monkeypatch):
    monkeypatch.setattr(compiled, "free_threads", lambda most: workers)
    rng = np.random.default_rng(0)
    sets, queries = unit_sets(rng, 4000, 4, 64, spread), unit_sets(rng, 20, 4, 64, spread)
    search = CompiledSearch(kernel, split(sets, 16.0, [10, 2000]), 16.0)
    check(search.search(queries, 10, None), queries, sets, 10, 16.0)


@pytest.mark.parametrize("kernel", list(kernels()))
@pytest.mark.parametrize("spread", [0.1, 3.0])
@pytest.mark.parametrize("items", [9000, 40_000])
def test_collections_with_and_without_bounds_by_means_are_searched_exactly(kernel, spread, items):
    rng = np.random.default_rng(0)
    sets = unit_sets(rng, items, 2, 16, spread)
    queries = np.concatenate([sets[:2], unit_sets(rng, 2, 2, 16, spread)])
    search = CompiledSearch(kernel, split(sets, 16.0, [2000, 5000]), 16.0)
    allowed = rng.random(items) < 0.3
    check(search.search(queries, 10, None), queries, sets, 10, 16.0)
    check(search.search(queries, 10, allowed), queries, sets, 10, 16.0, allowed)


def test_a_kernel_of_other_sources_is_not_used(monkeypatch):
    monkeypatch.setattr(compiled, "INTERFACE", 1)
    assert load_kernel() is None


def test_equal_items_are_ordered_by_age():
    rng = np.random.default_rng(0)
    sets = np.repeat(unit_sets(rng, 1, 4, 64), 1000, axis=0)
    search = CompiledSearch(load_kernel(), split(sets, 16.0, [300]), 16.0)
    found = search.search(sets[:1], 20, None)
    assert found.positions[0].tolist() == list(range(20))


def test_candidates_are_ranked_by_their_sets():
    rng = np.random.default_rng(0)
    sets, queries = unit_sets(rng, 200, 4, 64), unit_sets(rng, 5, 3, 64)
    search = CompiledSearch(load_kernel(), split(sets, 16.0, [70]), 16.0)
    candidates = np.array([rng.permutation(200)[:30] for _ in queries])
    candidates[:, ::4] = -1
    found = search.rank(queries, candidates, 10)
    for n, query in enumerate(queries):
        valid = candidates[n][candidates[n] >= 0]
        scores = explain(query, sets[valid], 16.0).scores
        order = np.argsort(-scores)[:10]
        assert found.positions[n].tolist() == valid[order].tolist()
        np.testing.assert_allclose(found.scores[n], scores[order], atol=1e-6)


def test_a_damaged_block_that_was_read_is_an_error(tmp_path, monkeypatch):
    with make_index(tmp_path, 300) as index:
        index.compact()
        (part,) = index.view().scan.parts
        part.elements[0, 5, 3] ^= 1  # a private mapping: the file is not changed
        with pytest.raises(DamagedSegmentError):
            index.view().scan.search(make_sets(1), 300)


def test_a_damaged_set_that_was_read_is_an_error(tmp_path):
    with make_index(tmp_path, 300) as index:
        index.compact()
        (part,) = index.view().scan.parts
        part.sets[7] = torch.nan
        with pytest.raises(DamagedSegmentError):
            index.view().scan.search(make_sets(8)[7:], 300)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
@pytest.mark.filterwarnings("ignore:This process:DeprecationWarning")
def test_a_forked_process_can_search(tmp_path, monkeypatch):
    monkeypatch.setattr(compiled, "free_threads", lambda most: 2)
    with make_index(tmp_path, 300) as index:
        held, queries = index.view().scan, make_sets(2)
        expected = held.search(queries, 5).positions.tolist()
        child = os.fork()
        if child == 0:
            os._exit(0 if held.search(queries, 5).positions.tolist() == expected else 1)
        assert os.waitpid(child, 0)[1] == 0


def test_busy_cores_get_no_threads(monkeypatch):
    monkeypatch.setattr(threads.torch, "get_num_threads", lambda: 8)
    for running, free in ((1, 8), (3, 6), (8, 1), (50, 1)):
        monkeypatch.setattr(threads, "running_threads", lambda running=running: running)
        assert threads.free_threads(100) == free
        assert threads.free_threads(2) == min(2, free)


def test_the_number_of_running_threads_is_at_least_one(monkeypatch, tmp_path):
    assert threads.running_threads() >= 1
    monkeypatch.setattr(threads, "LOAD", tmp_path / "missing")
    assert threads.running_threads() == 1


def test_small_collections_are_scanned_by_one_thread(tmp_path, monkeypatch):
    asked = []
    monkeypatch.setattr(compiled, "free_threads", lambda most: asked.append(most) or 1)
    with make_index(tmp_path, 300) as index:
        index.search(make_sets(1))
    assert asked == [0]


def test_without_the_kernel_the_hits_are_equal(tmp_path, monkeypatch):
    queries = make_sets(5, seed=3)
    with make_index(tmp_path, 300) as index:
        hits = index.search(queries, k=7)
        monkeypatch.setattr(scan, "load_kernel", lambda: None)
        index._view = None
        for kernel, torch_hits in zip(hits, index.search(queries, k=7), strict=True):
            assert [hit.id for hit in kernel] == [hit.id for hit in torch_hits]
            expected = [hit.score for hit in torch_hits]
            np.testing.assert_allclose([hit.score for hit in kernel], expected, atol=1e-12)
